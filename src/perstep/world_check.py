"""`check_world`: whether a world is a sound continuing task, in sentences, and how hard a finite one is."""

from __future__ import annotations

from typing import Any

import numpy as np

from perstep.agents.doubts import Doubt
from perstep.agents.worlds import make
from perstep.config import count
from perstep.distribution import Floats
from perstep.environments import FiniteMDP, FiniteMDPEnv
from perstep.environments.exact import end_components, fewest_steps, returns_under_every_policy, strongly_connected
from perstep.environments.outcomes import transition_matrix
from perstep.environments.spaces import discrete_actions
from perstep.environments.world_state import restore, snapshot, time_limit
from perstep.interaction.gymnasium_worlds import first_observation, whole_step

DIAMETER_UP_TO = 100  # states
MIXING_UP_TO = 500  # states


class WorldCheck(list[Doubt]):
    """What is wrong with a world, each with a name and a sentence; empty when all is well. `facts` tells the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: list[str] = []
        """What was found and is not wrong: randomness, saving, and how hard a finite world is."""

    def __str__(self) -> str:
        wrong = [f"! {doubt}" for doubt in self] or ["Nothing is wrong."]
        return "\n".join([*wrong, *(f"· {fact}" for fact in self.facts)])


def check_world(env: Any, num_steps: int = 1000, seed: int = 0) -> WorldCheck:
    """Try a world (an environment, its id or a FiniteMDP) for some random steps, and say what is wrong with it.

    It looks at spaces, rewards, seeds and ends, and at whether the state can be saved and restored to the bit. For a
    finite world it also tells whether it communicates, and how long it takes to get around.
    """
    steps = count("num_steps", num_steps, 1)
    own = isinstance(env, str | FiniteMDP)
    made = FiniteMDPEnv(env) if isinstance(env, FiniteMDP) else make(env) if isinstance(env, str) else env
    if isinstance(made, type):
        raise TypeError(f"check_world takes an environment, not its class: check_world({made.__name__}()).")
    found = WorldCheck()
    try:
        discrete_actions(made.action_space, "An agent")
    except TypeError as error:
        found.append(Doubt("actions", str(error)))
    try:
        _check_life(made, steps, seed, found)
    except TypeError as error:
        if not str(error).startswith(("step()", "reset()")):
            raise
        found.append(Doubt("interface", str(error)))
    finally:
        if own:
            made.close()
    if isinstance(mdp := getattr(made.unwrapped, "mdp", None), FiniteMDP):
        _check_structure(mdp, found)
    return found


# Steps


class _Life:
    """Some steps of an environment with fixed actions."""

    def __init__(self, env: Any, steps: int, seed: int | None, actions: list[Any]) -> None:
        self.observations: list[Any] = []
        self.rewards: list[Any] = []
        self.num_terminated = self.num_truncated = 0
        self.first_end = 0
        if seed is not None:
            self.observations.append(first_observation(env, seed))
        for step in range(steps):
            observation, reward, terminated, truncated, _ = whole_step(env.step(actions[step]))
            self.rewards.append(reward)
            self.num_terminated += bool(terminated)
            self.num_truncated += bool(truncated and not terminated)
            if terminated or truncated:
                self.first_end = self.first_end or step + 1
                observation = first_observation(env, None)
            self.observations.append(observation)

    def differs_from(self, other: _Life) -> int | None:
        """The first step in which two lives differ."""
        for step, (mine, theirs) in enumerate(zip(self.observations, other.observations, strict=True)):
            if not _same(mine, theirs):
                return step
        both = zip(self.rewards, other.rewards, strict=True)
        return next(
            (step for step, (a, b) in enumerate(both, 1) if not (a == b or (a != a and b != b))), None
        )  # NaN is NaN


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(_same, a, b))
    return bool(np.array_equal(a, b))


def _check_life(env: Any, steps: int, seed: int, found: WorldCheck) -> None:
    env.action_space.seed(seed)
    actions = [env.action_space.sample() for _ in range(steps)]
    life = _Life(env, steps, seed, actions)
    for step, observation in enumerate(life.observations):
        if not env.observation_space.contains(observation):
            found.append(
                Doubt(
                    "space",
                    f"Observations must lie in the space {env.observation_space}, got {observation!r} after {step} steps. "
                    "Correct the bounds, the shape or the dtype of the space.",
                )
            )
            break
    for step, reward in enumerate(life.rewards):
        if not np.isscalar(reward) or not np.isfinite(float(reward)):  # type: ignore[arg-type]
            found.append(
                Doubt(
                    "rewards", f"Rewards must be finite numbers, got {reward!r} in step {step + 1}. Correct or clip it."
                )
            )
            break
    again = _Life(env, steps, seed, actions)
    if (differs := life.differs_from(again)) is not None:
        found.append(
            Doubt(
                "seed",
                f"After reset(seed={seed}) the same actions must lead to the same life, but it differs after {differs} steps. Call "
                "super().reset(seed=seed) and draw from self.np_random only.",
            )
        )
    elif life.differs_from(_Life(env, steps, seed + 1, actions)) is None:
        found.facts.append("Nothing is random: another seed gives the same steps.")
    else:
        found.facts.append("The same seed gives the same steps, another seed gives others.")
    _check_ends(env, life, steps, found)
    _check_saving(env, actions, found)


def _check_ends(env: Any, life: _Life, steps: int, found: WorldCheck) -> None:
    if life.num_terminated:
        found.append(
            Doubt(
                "ends",
                f"A continuing world has no end, but it terminated {life.num_terminated} times in {steps} random steps, first "
                f"after {life.first_end}. perstep.environments.endless(env, reset_cost) makes an end a jump to the next start.",
            )
        )
    if (limit := time_limit(env)) is not None or life.num_truncated:
        found.append(
            Doubt(
                "time limit",
                f"A continuing world has no time limit, got {limit or life.first_end} steps. "
                "perstep.environments.without_time_limit(env) removes it.",
            )
        )
    if not life.num_terminated and not life.num_truncated and limit is None:
        found.facts.append(f"It neither terminated nor truncated in {steps} random steps.")


def _check_saving(env: Any, actions: list[Any], found: WorldCheck) -> None:
    taken = snapshot(env)
    if taken is None:
        found.facts.append("Its state cannot be saved: an agent that is loaded starts with a fresh reset.")
        return
    first = _Life(env, len(actions), None, actions)
    restore(env, taken)
    if first.differs_from(_Life(env, len(actions), None, actions)) is None:
        found.facts.append("Its state can be saved and restored to the bit.")
    else:
        found.append(
            Doubt("saving", "A restored state must have the same future, but it differs. Some state is not restored.")
        )


# Finite worlds


def _check_structure(mdp: FiniteMDP, found: WorldCheck) -> None:
    matrix = transition_matrix(mdp.outcomes)
    connected = strongly_connected(matrix, mdp.num_actions)
    size = f"{mdp.num_states} states and {mdp.num_actions} actions"
    if connected:
        found.facts.append(f"It has {size} and communicates: every state can be reached from every other.")
    elif len(parts := end_components(matrix, mdp.num_actions)) == 1:
        found.facts.append(
            f"It has {size} and communicates weakly: {parts[0].size} states can be reached from each other, the others are left "
            "for ever."
        )
    else:
        found.append(
            Doubt(
                "parts",
                f"It has {len(parts)} parts that a policy can stay in and that do not communicate, so the best average reward can "
                f"depend on the first state. State {mdp.states[int(parts[0][0])]!r} is in one, "
                f"{mdp.states[int(parts[1][0])]!r} in another. Add transitions between them, or give an initial "
                "distribution that leads to one of them.",
            )
        )
        return
    anchor = returns_under_every_policy(matrix, mdp.num_actions, mdp.initial)
    found.facts.append(
        "Not every policy is known to have one average reward from every start."
        if anchor is None
        else f"It is unichain: under every policy it comes to state {mdp.states[anchor]!r} again and again."
    )
    if connected and mdp.num_states <= DIAMETER_UP_TO:
        diameter = max(float(fewest_steps(matrix, mdp.num_actions, target).max()) for target in range(mdp.num_states))
        found.facts.append(
            f"Its diameter is {diameter:.3g}: the expected steps between the two states that are furthest apart."
        )
    if mdp.num_states <= MIXING_UP_TO:
        uniform = mdp.transitions.mean(axis=1)
        best = mdp.transitions[np.arange(mdp.num_states), mdp.solve().policy]
        found.facts.append(
            f"Random actions forget where they started within about {_relaxation(uniform):.3g} steps, the optimal policy within "
            f"about {_relaxation(best):.3g} (relaxation times)."
        )


def _relaxation(chain: Floats) -> float:
    """1 / (1 − |λ|) for the second largest eigenvalue λ of ½(I + P), in steps of P; the half makes periodic chains mix too."""
    sizes = np.sort(np.abs(np.linalg.eigvals(0.5 * (np.eye(len(chain)) + chain))))[::-1]
    return float(0.5 / max(1.0 - sizes[1], 1e-16)) if len(sizes) > 1 else 0.0
