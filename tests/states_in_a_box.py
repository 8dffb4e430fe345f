"""A finite world for agents that read boxes of numbers, so that its exact answers hold for them too."""

from __future__ import annotations

import gymnasium
import numpy as np


class States(gymnasium.Env):
    """A finite MDP seen as numbers 0, 1, … of a box: one tile a state makes it a table again."""

    def __init__(self, mdp):
        self.mdp = mdp
        self.observation_space = gymnasium.spaces.Box(0.0, float(mdp.num_states), (1,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(mdp.num_actions)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return np.array([0.5]), {}

    def step(self, action):
        world = self.mdp.world
        outcome = self.np_random.choice(world.accept.shape[2], p=self.mdp.outcomes.probability[self.state, action])
        mean, sd = world.mean[self.state, action, outcome], world.sd[self.state, action, outcome]
        reward = min(world.cap, self.np_random.normal(mean, sd))
        self.state = int(world.next_state[self.state, action, outcome])
        return np.array([self.state + 0.5]), reward, False, False, {}
