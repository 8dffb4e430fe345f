"""CONTRIBUTING's recipe for a learner, followed to the letter: ten lines of its own, and all that every agent can do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import perstep
from perstep.agent import files
from perstep.agent.states import StateHooks, StatesAgent, one_hot
from perstep.distributions.history import note
from perstep.numerics.randomness import draw
from perstep.rules.settings import LearnerConfig
from perstep.rules.transition import move_theta


@dataclass(frozen=True, kw_only=True)
class BanditConfig(LearnerConfig):
    """Settings of Bandit."""

    epsilon: float = 0.1
    """ε: probability of a random action."""


class Bandit(StatesAgent):
    """The mean reward of each action in each state, and nothing beyond it."""

    Config = BanditConfig

    def __init__(self, env: Any, **settings: Any) -> None:
        super().__init__(env, BanditConfig.of(settings))
        self._means = np.zeros((self._num_states, self._num_actions))
        self._hooks = BanditHooks(self)

    def _chances(self, states, deterministic):
        epsilon = 0.0 if deterministic else self.config.epsilon
        return (1.0 - epsilon) * one_hot(self._means[states]) + epsilon / self._num_actions

    def _values(self):
        return (self._means,)

    def _arrays(self):
        return {"means": self._means}

    @classmethod
    def _check_sizes(cls, config, about, arrays):
        pass

    def frame(self):
        raise NotImplementedError


class BanditHooks(StateHooks):
    """What the plain loop asks of it."""

    def act(self, point):
        agent = self._agent
        return agent._actions.point(int(draw(agent._allowed_chances([point], False)[0], agent._generator)))

    def learn_then_act(self, point, action, reward, next_point, masked, resume):
        agent, a = self._agent, self._agent._actions.one(action)
        agent._means[point, a] += 0.1 * (reward - agent._means[point, a])
        move_theta(agent.config.kernel, agent._rewards, reward, 0.01, 1.0)
        note(agent.config.kernel, agent._life.record, reward, agent._rewards)
        agent._life.steps += 1
        return self.act(resume)


def shop() -> perstep.FiniteMDP:
    """Two states with names; "sell" pays 1 in the first and 3 in the second, "wait" nothing."""
    pays = {("few", "sell"): 1.0, ("many", "sell"): 3.0}
    return perstep.FiniteMDP.from_function(
        "few",
        ["wait", "sell"],
        lambda s, a: [(0.5, "few", pays.get((s, a), 0.0)), (0.5, "many", pays.get((s, a), 0.0))],
    )


@pytest.mark.parametrize("world", ["in a finite MDP", "in Gymnasium"])
def test_a_learner_of_ten_lines_is_an_agent(world: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(files.AGENTS, "Bandit", SimpleNamespace(agent_class=Bandit))  # as a row of LEARNERS does
    env: Any = shop() if world == "in a finite MDP" else "FrozenLake-v1"
    agent = Bandit(env, seed=1).learn(300)
    agent.save(tmp_path / "a.safetensors")
    again: Any = perstep.load(tmp_path / "a.safetensors").learn(200)
    agent.learn(200)
    assert (again._means == agent._means).all()
    assert (again.reward_quantiles == agent.reward_quantiles).all()
    assert again.history.lifetime_reward == agent.history.lifetime_reward
    assert agent.evaluate(50).num_steps == 50
    assert agent.learn(1, snapshot_at=[501]).snapshots[0].values.shape == agent._means.shape
    if world == "in a finite MDP":
        assert agent.policy(deterministic=True).tolist() == [[0.0, 1.0], [0.0, 1.0]]
        assert agent.mdp is not None
        assert agent.mdp.evaluate(agent.policy(deterministic=True)).average_reward == pytest.approx(2.0)
        assert agent.predict(1) == (1, None)  # the plain loop speaks Gymnasium's numbers
