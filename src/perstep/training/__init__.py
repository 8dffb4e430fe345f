"""Training from the command line: a task from flags, a run in a folder, exact answers beside what was learnt."""

from perstep.training.evaluation import BUDGET, Plan
from perstep.training.metrics import metrics_frame, moment
from perstep.training.run import (
    AGENT,
    EPISODE_RETURN,
    EVALUATIONS,
    EVENTS,
    FILES,
    FILM,
    METRICS,
    QUANTILES,
    REWARD_RATE,
    RUN,
    Interrupted,
    draw,
    is_current,
    read_record,
    train,
)
from perstep.training.task import Task, open_world

__all__ = [
    "AGENT",
    "BUDGET",
    "EPISODE_RETURN",
    "EVALUATIONS",
    "EVENTS",
    "FILES",
    "FILM",
    "METRICS",
    "QUANTILES",
    "REWARD_RATE",
    "RUN",
    "Interrupted",
    "Plan",
    "Task",
    "draw",
    "is_current",
    "metrics_frame",
    "moment",
    "open_world",
    "read_record",
    "train",
]
