"""Training from the command line: a run specified by flags, its folder, and exact answers beside the learnt ones."""

from perstep.app.training.evaluation import EVALUATION_STEPS, EvaluationPlan
from perstep.app.training.metrics import metrics_frame, run_status
from perstep.app.training.run import draw, train
from perstep.app.training.run_folder import (
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
from perstep.app.training.run_spec import RunSpec, make_world
from perstep.app.training.training_loop import Interrupted

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
