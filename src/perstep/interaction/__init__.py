"""The paper's `while still time to train`: the one place where a learner meets a world.

Compiled loops run whole stretches of steps: tables in finite MDPs, tiles in worlds of motion. Plain loops run any agent in any
Gymnasium environment or vector of environments. All of them call the same learners.
"""
