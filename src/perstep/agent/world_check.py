"""`check_world`: whether a world is a sound continuing task, in sentences, and how hard a finite one is."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from perstep.agent.checks import Finding
from perstep.distributions.distribution import Floats
from perstep.gym.answers import first_observation, whole_step
from perstep.gym.opening import make
from perstep.gym.spaces import bounded_actions, discrete_actions
from perstep.gym.vector import DISABLED, NEXT_STEP, SAME_STEP, autoreset_mode, is_vector
from perstep.gym.world_state import restore, snapshot, time_limit
from perstep.inputs.checks import count
from perstep.mdp.chains import (
    end_components,
    fewest_steps,
    returns_under_every_policy,
    strongly_connected,
)
from perstep.mdp.env import FiniteMDPEnv
from perstep.mdp.mdp import FiniteMDP
from perstep.mdp.outcomes import transition_matrix
from perstep.numerics.schedules import is_finite

MOST_STEPS = 1_000_000
DIAMETER_UP_TO = 100  # states
MIXING_UP_TO = 500  # states


class WorldCheck(list[Finding]):
    """What is wrong with a world, each with a name and a sentence; empty when all is well. `facts` tells the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: list[str] = []
        """What was found and is not wrong: randomness, saving, and how hard a finite world is."""

    def __str__(self) -> str:
        wrong = [f"! {finding}" for finding in self] or ["Nothing is wrong."]
        return "\n".join([*wrong, *(f"· {fact}" for fact in self.facts)])


def check_world(env: Any, num_steps: int = 1000, seed: int = 0) -> WorldCheck:
    """Take some random steps in a world (an environment, its id or a FiniteMDP), and say what is wrong with it.

    It looks at spaces, rewards, seeds and ends, and at whether the state can be saved and restored to the bit. For a
    finite world it also tells whether it communicates, and how long it takes to get around. For a vector environment it looks
    at all environments, and at whether ends are reset in the mode that it names.
    """
    steps, seed = count("num_steps", num_steps, 1, MOST_STEPS), count("seed", seed, 0)
    own = isinstance(env, str | FiniteMDP)
    made: Any = FiniteMDPEnv(env) if isinstance(env, FiniteMDP) else make(env) if isinstance(env, str) else env
    if isinstance(made, type):
        raise TypeError(f"check_world takes an environment, not its class: check_world({made.__name__}()).")
    if not (hasattr(made, "action_space") and hasattr(made, "observation_space")):
        raise TypeError(
            f"check_world takes a Gymnasium environment, its id or a perstep.FiniteMDP, got {type(made).__name__}."
        )
    found = WorldCheck()
    try:
        actions = made.single_action_space if is_vector(made) else made.action_space
        (bounded_actions if isinstance(actions, Box) else discrete_actions)(actions, "An agent")
    except TypeError as error:
        found.append(Finding("actions", str(error)))
    try:
        (_check_vector_life if is_vector(made) else _check_life)(made, steps, seed, found)
    except TypeError as error:
        if not str(error).startswith(("step()", "reset()")):
            raise
        found.append(Finding("interface", str(error)))
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

    def sound_reward(self, reward: Any) -> bool:
        """Whether this is a reward."""
        return isinstance(reward, bool | np.bool_) or is_finite(reward)

    def differs_from(self, other: _Life) -> int | None:
        """The first step in which two lives differ."""
        for step, (mine, theirs) in enumerate(zip(self.observations, other.observations, strict=True)):
            if not _same(mine, theirs):
                return step
        both = zip(self.rewards, other.rewards, strict=True)
        return next((step for step, (a, b) in enumerate(both, 1) if not _same_reward(a, b)), None)


def _same_reward(a: Any, b: Any) -> bool:
    return bool(np.all((a == b) | ((a != a) & (b != b))))  # NaN is NaN


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
    _check_steps(env, life, found)
    _check_seeds(_Life, env, life, actions, seed, found)
    _check_ends(life, steps, time_limit(env), found, "perstep.gym.endless(env, reset_cost)", "(env)")
    _check_saving(env, actions, found)


def _check_steps(env: Any, life: _Life, found: WorldCheck) -> None:
    for step, observation in enumerate(life.observations):
        if not env.observation_space.contains(observation):
            found.append(
                Finding(
                    "space",
                    f"Observations must lie in the space {env.observation_space}, got {observation!r} after {step} steps. "
                    "Correct the bounds, the shape or the dtype of the space.",
                )
            )
            break
    for step, reward in enumerate(life.rewards):
        if not life.sound_reward(reward):
            found.append(
                Finding(
                    "rewards", f"Rewards must be finite numbers, got {reward!r} in step {step + 1}. Correct or clip it."
                )
            )
            break


def _check_seeds(kind: type[_Life], env: Any, life: _Life, actions: list[Any], seed: int, found: WorldCheck) -> None:
    again = kind(env, len(actions), seed, actions)
    if (differs := life.differs_from(again)) is not None:
        found.append(
            Finding(
                "seed",
                f"After reset(seed={seed}) the same actions must lead to the same life, but it differs after {differs} steps. Call "
                "super().reset(seed=seed) and draw from self.np_random only.",
            )
        )
    elif life.differs_from(kind(env, len(actions), seed + 1, actions)) is None:
        found.facts.append("Nothing is random: another seed gives the same steps.")
    else:
        found.facts.append("The same seed gives the same steps, another seed gives others.")


def _check_ends(life: _Life, steps: int, limit: int | None, found: WorldCheck, endless: str, of: str) -> None:
    if life.num_terminated:
        found.append(
            Finding(
                "ends",
                f"A continuing world has no end, but it terminated {life.num_terminated} times in {steps} random steps, first "
                f"after {life.first_end}. {endless} makes an end a jump to the next start.",
            )
        )
    if limit is not None or life.num_truncated:
        found.append(
            Finding(
                "time limit",
                f"A continuing world has no time limit, got {limit or life.first_end} steps. "
                f"perstep.gym.without_time_limit{of} removes it.",
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
            Finding("saving", "A restored state must have the same future, but it differs. Some state is not restored.")
        )


# Vectors of worlds


class _VectorLife(_Life):
    """Some steps of all environments of a vector."""

    def __init__(self, env: Any, steps: int, seed: int, actions: list[Any]) -> None:
        self.rewards: list[Any] = []
        self.num_terminated = self.num_truncated = self.first_end = 0
        self.num_envs = int(env.num_envs)
        self.not_reset = ""
        """What contradicts the reset mode that the vector names; empty if nothing does."""
        try:
            mode = autoreset_mode(env)
        except ValueError as error:
            mode, self.not_reset = "", str(error)
        first, _ = env.reset(seed=seed)
        self.observations: list[Any] = [copy.deepcopy(first)]  # environments may write the next step to the same memory
        over = np.zeros(self.num_envs, np.bool_)
        for step in range(1, steps + 1):
            observation, rewards, terminated, truncated, info = env.step(actions[step - 1])
            self.rewards.append(np.array(rewards))
            self.num_terminated += int(np.sum(terminated))
            self.num_truncated += int(np.sum(truncated & ~terminated))
            if mode == NEXT_STEP and (late := over & ((np.array(rewards) != 0.0) | terminated | truncated)).any():
                self._contradicts(
                    f"NextStep, so that the step after an end only reports the next start, with a reward of 0, but "
                    f"environment {int(late.argmax())} had a reward of {rewards[late.argmax()]} or another end in step {step}"
                )
            over = np.asarray(terminated | truncated, np.bool_)
            if over.any():
                self.first_end = self.first_end or step
                if mode == SAME_STEP and "final_obs" not in info:
                    self._contradicts(
                        f"SameStep, so that the true last observation is in info['final_obs'], but it is missing in step {step}"
                    )
                elif mode == DISABLED:
                    observation, _ = env.reset(options={"reset_mask": over})
            self.observations.append(copy.deepcopy(observation))

    def _contradicts(self, what: str) -> None:
        self.not_reset = self.not_reset or (
            f"The vector names the autoreset mode {what}. Set env.metadata['autoreset_mode'] to what it does."
        )

    def sound_reward(self, reward: Any) -> bool:
        """Whether these are the rewards of all environments."""
        return np.shape(reward) == (self.num_envs,) and bool(np.isfinite(reward).all())


def _check_vector_life(env: Any, steps: int, seed: int, found: WorldCheck) -> None:
    env.action_space.seed(seed)
    actions = [env.action_space.sample() for _ in range(steps)]
    life = _VectorLife(env, steps, seed, actions)
    _check_steps(env, life, found)
    if life.not_reset:
        found.append(Finding("reset mode", life.not_reset))
    _check_seeds(_VectorLife, env, life, actions, seed, found)
    inner = getattr(env, "envs", None)
    wrapped = "gymnasium.make_vec(…, vectorization_mode='sync', wrappers=[perstep.gym.endless])"
    limit = time_limit(inner[0]) if inner else None
    _check_ends(life, steps, limit, found, wrapped, " in the list of wrappers")
    mode = "" if life.not_reset else f" An end is reset in the mode {autoreset_mode(env)}."
    found.facts.append(
        f"{life.num_envs} environments step together.{mode} Their states cannot be saved: an agent that is loaded starts with a "
        "fresh reset."
    )


# Finite worlds


def _check_structure(mdp: FiniteMDP, found: WorldCheck) -> None:
    matrix = transition_matrix(mdp.outcomes)
    connected = strongly_connected(matrix, mdp.num_actions)
    if not connected and (never := _never_reached(matrix, mdp)).size:
        found.facts.append(
            f"{never.size} of its {mdp.num_states} states are never reached from its first states, such as "
            f"{mdp.states[int(never[0])]!r}. Leave them out, or look for a transition that is missing."
        )
    size = f"{mdp.num_states} states and {mdp.num_actions} actions"
    if connected:
        found.facts.append(f"It has {size} and communicates: every state can be reached from every other.")
    elif len(parts := end_components(matrix, mdp.num_actions)) == 1:
        other = int(np.setdiff1d(np.arange(mdp.num_states), parts[0])[0])
        found.facts.append(
            f"It has {size} and communicates weakly: {parts[0].size} states can be reached from each other, the others, such as "
            f"{mdp.states[other]!r}, are left for ever."
        )
    else:
        found.append(
            Finding(
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


def _never_reached(matrix: Any, mdp: FiniteMDP) -> NDArray[Any]:
    """The states that no sequence of actions leads to from a possible first state."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import breadth_first_order

    entries, first = matrix.tocoo(), np.flatnonzero(mdp.initial)
    size = mdp.num_states  # one node more stands before all first states
    rows = np.concatenate([entries.row // mdp.num_actions, np.full(first.size, size)])
    columns = np.concatenate([entries.col, first])
    graph = coo_array((np.ones(rows.size), (rows, columns)), shape=(size + 1, size + 1)).tocsr()
    return np.setdiff1d(np.arange(size), breadth_first_order(graph, size, return_predecessors=False))


def _relaxation(chain: Floats) -> float:
    """1 / (1 − |λ|) for the second largest eigenvalue λ of ½(I + P), in steps of P; the half makes periodic chains mix too."""
    sizes = np.sort(np.abs(np.linalg.eigvals(0.5 * (np.eye(len(chain)) + chain))))[::-1]
    return float(0.5 / max(1.0 - sizes[1], 1e-16)) if len(sizes) > 1 else 0.0
