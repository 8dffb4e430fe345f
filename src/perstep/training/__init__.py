"""Training from the command line: a task from flags, a run in a folder, exact answers beside what was learnt."""

from perstep.training.run import (
    AGENT,
    METRICS,
    QUANTILES,
    REWARD_RATE,
    RUN,
    Interrupted,
    draw,
    metrics_frame,
    moment,
    read_record,
    train,
)
from perstep.training.task import Task, open_world

__all__ = [
    "AGENT",
    "METRICS",
    "QUANTILES",
    "REWARD_RATE",
    "RUN",
    "Interrupted",
    "Task",
    "draw",
    "metrics_frame",
    "moment",
    "open_world",
    "read_record",
    "train",
]
