"""The plain loop of a learner on tiles, one call a step, for tests that know its state."""

from __future__ import annotations

import numpy as np

from perstep.tiles import loop as motion_worlds
from perstep.tiles.coder import TileCoder

CODER = TileCoder(low=(-1.0, -1.0), high=(1.0, 1.0), tilings=8, tiles=4)


def features(point):
    x = np.zeros(CODER.num_features)
    x[CODER.active(point)] = 1.0
    return x


def enter_then_act(learner, behaviour, run, generator, point):
    return motion_worlds.loops(learner).enter_then_act(
        behaviour,
        run.weights,
        run.rewards,
        run.tiling,
        run.room,
        run.optimism,
        run.traces,
        generator,
        point,
    )


def learn_then_act(learner, rule, behaviour, run, *arguments):
    return motion_worlds.loops(learner).learn_then_act(rule, behaviour, *run, *arguments)
