"""The Planner: an agent that counts what it sees, plans in the model of it, and gives intervals for what it does not know."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, final

import numpy as np

from perstep.agent.agent import Floats
from perstep.agent.arrays import FINITE, Limits, below, check_limits, fill, flatten, put
from perstep.agent.checks import APART, FEWEST_STEPS, Finding
from perstep.agent.earned import headline
from perstep.agent.evaluation import Snapshot
from perstep.agent.life import LONGEST
from perstep.agent.states import StateHooks, StatesAgent
from perstep.distributions.distribution import Distribution
from perstep.distributions.forecast import Forecast
from perstep.files import storage
from perstep.gym.opening import Absent
from perstep.gym.spaces import Numbering
from perstep.inputs.checks import number, whole
from perstep.mdp.mdp import FiniteMDP
from perstep.mdp.names import labels
from perstep.mdp.sampler import start
from perstep.numerics.compiled import announce
from perstep.planning import life
from perstep.planning.beliefs import GAIN, KNOWN, THRESHOLD, new_draw, new_experience
from perstep.planning.counts import PER_ATOM, PER_ENTRY, has_room, new_counts, with_room
from perstep.planning.knowledge import Knowledge, conclude
from perstep.planning.plan import FRESH, new_plan
from perstep.planning.saved import check_counts, check_experience
from perstep.planning.settings import PlannerConfig

if TYPE_CHECKING:
    import polars

    from perstep.gym.opening import World

SMALL = 1_000  # states, of which `repr` says what is likely: it takes seconds for more
ONE_ERROR = (0.159, 0.841)  # levels one standard error from the middle of a normal distribution
THIN = 10.0  # visits of an action that the policy takes
NOTABLE = 0.05  # in this share of the steps or more
ERRORS = 5.0  # standard errors between what the model says and what was earned
ROUNDING = 1e-12  # of sums of rewards
RISK_GROWTH = 2.0  # with a risk level, the exact solver chooses the threshold anew when the life has grown so much


@final
class Planner(StatesAgent):
    """Control in finite worlds, for the best earnings: counts what it sees, plans in the model of it, and explores by
    posterior sampling, with a part for what is unseen (docs/learners/planner.md).

    `planner.mdp` is the world as learnt, a `FiniteMDP`: solve, evaluate, forecast and frontier work on it.
    """

    Config = PlannerConfig
    _has_loop_for_mdps = True
    config: Any
    _learnt: Any  # counts, experience, draw and plan

    def __init__(self, env: World | Absent, **settings: Any) -> None:
        super().__init__(env, PlannerConfig.of(settings))
        pairs = self._num_states * self._num_actions
        counts = new_counts(pairs)
        self._learnt = (
            counts,
            new_experience(self._num_states, pairs),
            new_draw(pairs, counts.follower.size),
            new_plan(self._num_states, pairs),
        )
        self._place = np.zeros(1, np.int64)
        if self._real_mdp is not None:
            self._place[0] = start(self._real_mdp.world, self._generator)
        self._hooks = PlannerHooks(self)
        self._known: tuple[int, Knowledge] | None = None
        self._aimed_at = np.zeros(1, np.int64)  # the step at which the threshold of a risk level was chosen

    @property
    def visits(self) -> Floats:
        """How often each action was taken in each state, (S, A); fading, with a memory."""
        return np.array(self._learnt[0].visits.reshape(self._num_states, self._num_actions))

    @property
    def _knowledge(self) -> Knowledge:
        if self.steps == 0:
            raise ValueError("This planner has seen nothing yet, so it knows no world. Call learn first.")
        if self._known is None or self._known[0] != self.steps:
            counts, experience, _, plan = self._learnt
            name = f"{self._world_name}, as learnt"
            known = conclude(counts, experience, plan, self._state_now, self._real_mdp, name, self.config)
            self._known = (self.steps, known)
        return self._known[1]

    @property
    def _state_now(self) -> int:
        if self._world is not None and self._world.point is not None:
            return int(self._world.point)
        return int(self._place[0])

    @property
    def mdp(self) -> FiniteMDP:
        """The world as learnt, with the states of the real one: what was seen, as often as it was seen.

        An action that was never taken does what one that was taken does; a state that was never left leads to the first one.
        """
        return self._knowledge.mdp

    @property
    def average_reward(self) -> float:
        """The average reward per step of the best policy, in the world as learnt; NaN before the first step."""
        return float(self._knowledge.evaluation.average_reward) if self.steps else math.nan

    def average_reward_interval(self, level: float = 0.9) -> tuple[float, float]:
        """The average reward of the best policy lies in this interval with probability `level`, given all that was seen, and with
        the posterior of what was not seen."""
        level = number("level", level, 0.0, 1.0, above=True)
        gains = [one.gain for one in self._knowledge.possibilities]
        low, high = np.quantile(gains, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
        return float(low), float(high)

    @property
    def risk_adjusted_reward(self) -> float:
        """The average reward, or with a risk_level below 1 the mean of the worst share of the rewards, of the best policy in the
        world as learnt."""
        if self.config.risk_level == 1.0 or self.steps == 0:
            return self.average_reward
        return float(self.learned_distribution.cvar(self.config.risk_level))

    @property
    def reward_quantiles(self) -> Floats:
        """The average reward alone: a planner keeps no quantiles (`learned_distribution` has them)."""
        return np.array([self.average_reward])

    @property
    def _learns_distribution(self) -> bool:
        return True

    @property
    def learned_distribution(self) -> Distribution:
        """The long-run distribution of the reward per step of the best policy, in the world as learnt."""
        found = self._knowledge.evaluation.reward_distribution
        return Distribution(found.weights, found.means, source=f"of the world as learnt in {self.steps:,} steps")

    def policy(self, deterministic: bool = False) -> Floats:
        """Probabilities of the actions in every state, (S, A): those of the current plan, which also explores; with `deterministic`
        the best ones in the world as learnt."""
        return super().policy(deterministic)

    def _chances(self, states: Any, deterministic: bool) -> Floats:
        actions = self._knowledge.policy if deterministic and self.steps else self._learnt[3].actions
        rows = np.eye(self._num_actions)[np.maximum(actions[states], 0)]
        if not deterministic:
            rows[np.asarray(actions[states]) == FRESH] = 1.0 / self._num_actions
        return np.asarray(rows)

    def action_values(self, observation: Any) -> Floats:
        """Q(s, ·) in the world as learnt, (A,); NaN where nothing is known."""
        return np.array(self.all_action_values[self._states.one(observation)])

    @property
    def all_action_values(self) -> Floats:
        """Q of all states and actions in the world as learnt, (S, A); NaN for actions that were never taken."""
        known = self._knowledge
        values = known.evaluation.action_values if known.solution is None else known.solution.action_values
        return np.where(self.visits > 0.0, values, np.nan)

    def forecast(self, num_steps: int, observation: Any = None) -> Forecast:
        """The distribution of the sum of the next `num_steps` rewards of the best policy, in the world as learnt; what is not known
        of it is in the error of the mean. `observation`: where it begins; without it, where the agent is now."""
        num_steps = whole("num_steps", num_steps, 1, LONGEST)
        known = self._knowledge
        state = known.state if observation is None else self._states.one(observation)
        try:
            found = known.evaluation.forecast(num_steps, start=known.mdp.states[int(state)], seed=self.config.seed)
        except ValueError as error:
            raise ValueError(
                f"Nothing is known of what the policy does from {observation!r} on: it was not there. ({error})"
            ) from error
        sums = [num_steps * one.gain + float(np.nan_to_num(one.values[state])) for one in known.possibilities]
        low, high = np.quantile(sums, ONE_ERROR)  # a single draw would decide their standard deviation
        half = 0.5 * float(high - low)
        certain = half <= ROUNDING * float(np.abs(sums).max())  # all draws are the same
        return dataclasses.replace(found, mean_error=0.0 if certain else half)

    def frame(self) -> polars.DataFrame:
        """What was learnt, one row for each state that was met: its number, its visits, the best action and the values."""
        import polars

        met = np.sort(self._learnt[1].order[: self._learnt[1].numbers[KNOWN]])
        values, names = self.all_action_values, self.mdp
        columns: dict[str, Any] = {"state": met}
        if not isinstance(names.states, range):
            shown = labels(names.states)
            columns["name"] = [shown[s] for s in met]
        columns["visits"] = self._learnt[1].entered[met]
        best = self._knowledge.policy[met]
        columns["action"] = names.names.of_actions.column(best)
        return polars.DataFrame(
            {**columns, **{f"value_{name}": values[met, a] for a, name in enumerate(labels(names.actions))}}
        )

    def check(self) -> list[Finding]:
        """What is probably wrong: where the model is thin, and where it contradicts experience."""
        return [] if self.steps < FEWEST_STEPS else list(self._findings())

    def _findings(self) -> Iterator[Finding]:
        _, experience, _, plan = self._learnt
        taken = self.visits[np.arange(self._num_states), np.maximum(plan.actions, 0)]
        share = experience.entered / max(int(experience.entered.sum()), 1)
        thin = taken < THIN
        thin &= share > 0.0
        if share[thin].sum() >= NOTABLE:
            state = int(np.where(thin, share, 0.0).argmax())
            yield Finding(
                "thin model",
                f"{share[thin].sum():.0%} of the steps were in {int(thin.sum()):,} states whose planned action was taken fewer "
                f"than {THIN:g} times, most of them in state {state} ({taken[state]:.0f} times): the average "
                "reward and forecasts are not reliable there. Learn longer.",
            )
        if self.config.memory is not None or self.config.risk_level < 1.0:
            return  # it forgets, or its plan is not about the mean of the rewards
        if (counted := self._life.reward_distribution) is None:
            return
        expected = float(experience.sums[GAIN])
        if expected - counted.mean > ERRORS * counted.mean_error + APART * counted.std:
            yield Finding(
                "average",
                f"The current plan expects {expected:.4g} per step, but the recent reward is {counted.mean:.4g}: the planner "
                "still explores, or the world changes. Learn longer, or use preset='changing'.",
            )

    def _aim(self) -> None:
        """With a risk level: the reward below which a step is bad, by the exact solver in the world as learnt."""
        self._learnt[1].sums[THRESHOLD] = getattr(
            self._knowledge.solution, "threshold", self._learnt[1].sums[THRESHOLD]
        )
        self._aimed_at[0] = self.steps

    def _advance(self, num_steps: int) -> None:
        careful = self.config.risk_level < 1.0
        end = self.steps + num_steps
        while self.steps < end:
            if careful and self.steps >= RISK_GROWTH * max(self._aimed_at[0], FEWEST_STEPS / 10):
                self._aim()
            if not has_room(self._learnt[0]):
                self._grow()
            until = min(end, int(RISK_GROWTH * max(self._aimed_at[0], FEWEST_STEPS / 10))) if careful else end
            self._live(max(until - self.steps, 1))

    def _grow(self) -> None:
        counts, experience, draw, plan = self._learnt
        counts = with_room(counts)
        self._learnt = (
            counts,
            experience,
            draw._replace(chance=np.zeros(counts.follower.size), follower=np.zeros(counts.follower.size, np.int32)),
            plan,
        )

    def _live(self, num_steps: int) -> None:
        settings = (self.config.steps_of_memory, self.config.risk_level, self._generator)
        if self._real_mdp is None:
            announce(life.learn_then_act)
            self._gymnasium_world().learn(self._hooks, self.steps, num_steps)
            return
        announce(life.live)
        self._life.steps += life.live(
            self._real_mdp.world,
            self._learnt,
            self._life.record,
            self._rewards,
            *settings,
            self._place,
            self.steps,
            num_steps,
        )

    def _values(self) -> tuple[Floats, ...]:
        return (self._learnt[1].sums,)

    def _level_of_values(self) -> tuple[float, float]:
        return math.nan, math.nan

    def _snapshot(self) -> Snapshot:
        return Snapshot(self.steps, self.average_reward, self.reward_quantiles, self.visits)

    def _arrays(self) -> storage.Arrays:
        counts, experience, _, plan = self._learnt
        entries, atoms = map(int, counts.size)
        part = counts._replace(
            **{name: getattr(counts, name)[:entries] for name in PER_ENTRY},
            **{name: getattr(counts, name)[:atoms] for name in PER_ATOM},
        )
        return {
            **flatten("counts", part),
            **flatten("experience", experience),
            **flatten("plan", plan),
            "place": self._place,
            "aimed_at": self._aimed_at,
        }

    def _limits(self) -> dict[str, Limits]:
        actions = below(self._num_actions, least=FRESH)
        place, aimed = below(self._num_states), below(LONGEST)
        finite = dict.fromkeys(("counts.", "experience.", "plan."), FINITE)
        return {**finite, "plan.actions": actions, "place": place, "aimed_at": aimed}

    def _take_over(self, arrays: storage.Arrays, metadata: dict[str, Any]) -> None:
        pairs = self._num_states * self._num_actions
        entries, atoms = len(arrays["counts.follower"]), len(arrays["counts.reward"])
        counts = new_counts(pairs, entries, atoms)
        _, experience, _, plan = self._learnt
        fill("counts", counts, arrays)
        fill("experience", experience, arrays)
        fill("plan", plan, arrays)
        check_counts(counts, self._num_states)
        check_experience(experience, self._num_states, pairs)
        put("place", self._place, arrays)
        put("aimed_at", self._aimed_at, arrays)
        self._learnt = (counts, experience, new_draw(pairs, entries), plan)
        check_limits(self._arrays(), self._limits())
        self._grow()
        self._known = None

    @classmethod
    def _check_sizes(cls, config: Any, about: dict[str, Any], arrays: storage.Arrays) -> None:
        if about.get("kind") == "mdp":
            return
        states, actions = (Numbering.from_json(about["spaces"][name]).count for name in ("states", "actions"))
        if arrays["counts.visits"].shape != (states * actions,):
            raise storage.BadFile("The file's counts are not those of its states and actions.")

    def __repr__(self) -> str:
        wrong = self.check()
        reported = f", findings: {', '.join(finding.name for finding in wrong)} (see check())" if wrong else ""
        if self.steps == 0:
            return f"Planner(in {self._world_name}, nothing learnt)"
        met = int(self._learnt[1].numbers[KNOWN])
        likely = ""
        if met <= SMALL:
            low, high = self.average_reward_interval()
            likely = f", {low:.4g} to {high:.4g} with 90 %"
        return (
            f"Planner({headline(self, 4)}, best policy {self.average_reward:.4g}{likely}, after {self.steps:,} steps in "
            f"{met:,} of {self._num_states:,} states{reported})"
        )


@final
class PlannerHooks(StateHooks):
    """What the plain loop asks of a planner."""

    def act(self, point: int) -> Any:
        """The action of the current plan."""
        agent = self._checked(point)
        settings = (agent.config.steps_of_memory, agent.config.risk_level, agent._generator)
        return agent._actions.point(int(life.choose(agent._learnt, point, agent.steps, *settings)))

    def learn_then_act(self, point: int, action: Any, reward: float, next_point: int, masked: bool, resume: int) -> Any:
        """Learn from one transition of a Gymnasium world, then act in the next state."""
        agent = self._checked(point, next_point, resume)
        if not has_room(agent._learnt[0]):
            agent._grow()
        settings = (agent.config.steps_of_memory, agent.config.risk_level, agent._generator)
        chosen = life.learn_then_act(
            agent._learnt, agent._life.record, agent._rewards, *settings, agent.steps, point, agent._actions.one(action), reward,
            next_point, resume,
        )  # fmt: skip
        agent._life.steps += 1
        return agent._actions.point(int(chosen))

    def _checked(self, *points: int) -> Any:
        if not all(0 <= point < self._agent._num_states for point in points):
            raise self._outside(*points)
        return self._agent
