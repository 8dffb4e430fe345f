"""The plain loop of a learner on tiles, one call a step, for tests that know its state."""

from __future__ import annotations

from perstep.tiles import loop as motion_worlds


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
