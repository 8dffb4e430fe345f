"""Training from the command line: a run specified by flags, its folder, and exact answers beside the learnt ones."""

from perstep.training.evaluation import EVALUATION_STEPS, EvaluationPlan
from perstep.training.metrics import metrics_frame, run_status
from perstep.training.run import draw, train
from perstep.training.run_folder import (
    AGENT,
    EPISODE_RETURN,
    EVALUATIONS,
    EVENTS,
    FILES,
    METRICS,
    QUANTILES,
    REWARD_RATE,
    RUN,
    VIDEO,
    is_current,
    read_record,
)
from perstep.training.run_spec import RunSpec, make_world
from perstep.training.training_loop import Interrupted

__all__ = [
    "AGENT",
    "EPISODE_RETURN",
    "EVALUATIONS",
    "EVALUATION_STEPS",
    "EVENTS",
    "FILES",
    "METRICS",
    "QUANTILES",
    "REWARD_RATE",
    "RUN",
    "VIDEO",
    "EvaluationPlan",
    "Interrupted",
    "RunSpec",
    "draw",
    "is_current",
    "make_world",
    "metrics_frame",
    "read_record",
    "run_status",
    "train",
]
