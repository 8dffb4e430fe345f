"""A training run in a folder, from the command line or from Python: after any interruption it resumes, to the bit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from perstep.agent.agent import Agent
from perstep.agent.objective import objective_sentence
from perstep.agent.tracking import Log, TensorBoardLog, Tracker, WandbLog, tensorboard_classes, wandb_module
from perstep.app.training.evaluation import EvaluationLog, EvaluationPlan, frame, read_rows
from perstep.app.training.exact_answers import exact_answers
from perstep.app.training.metrics import write_metrics
from perstep.app.training.run_folder import (
    AGENT,
    EPISODE_RETURN,
    EVALUATIONS,
    EVENTS,
    METRICS,
    QUANTILES,
    REWARD_RATE,
    VIDEO,
    RunFolder,
    is_current,
    read_record,
    versions,
)
from perstep.app.training.run_spec import RunSpec
from perstep.app.training.training_loop import TrainingLoop
from perstep.files.checkpoint_schedule import CheckpointSchedule
from perstep.files.folder_lock import locked
from perstep.files.storage import read_table
from perstep.inputs.checks import count

MAX_EVENTS = 1000  # entries of a run in TensorBoard


def train(
    spec: RunSpec,
    steps: int,
    folder: Path,
    *,
    checkpoint_every: int | None = None,
    resume: bool = False,
    evaluate: EvaluationPlan | None = None,
    tensorboard: bool = False,
    wandb: str | None = None,
    video: bool = False,
    watch: Callable[[Agent], None] = lambda agent: None,
    say: Callable[[str], None] = lambda text: None,
    command: str = "",
) -> Agent:
    """Learn until the agent has made `steps` steps, and leave all files of the run in `folder`.

    With `resume`, a run in the folder continues; without it, a folder with a run is refused. `evaluate`: when to evaluate the agent
    during the run. `tensorboard`: also write events for TensorBoard. `wandb`: the project of
    Weights & Biases to log the run in; a run that resumes continues there under the same id.
    `video`: also record a video of the agent at the end.
    `watch` is called with the agent several times a second, `say` with messages about evaluations and checkpoints. None of these
    changes what is learnt. Raises `Interrupted`, after a checkpoint, on SIGINT and SIGTERM.
    """
    count("steps", steps, 1)
    if checkpoint_every is not None:
        count("checkpoint_every", checkpoint_every, 1)
    schedule = CheckpointSchedule.of_run(steps, checkpoint_every)
    with contextlib.ExitStack() as held:
        was_there = folder.exists()
        if was_there:
            held.enter_context(locked(folder, subfolders=False))
        run = RunFolder.open(folder, spec, resume)
        agent = run.load_agent(spec) if run.path(AGENT).exists() else spec.make_agent()
        if video:
            from perstep.app.training.video import check_recordable  # imports Pillow, which other runs do not need

            check_recordable(agent)
        if tensorboard:
            tensorboard_classes()
        if wandb is not None:
            wandb_module()
        finished = run.record.get("finished") and agent.steps >= steps
        evaluations = None
        if evaluate is not None and not finished:
            evaluations = EvaluationLog(run.path(EVALUATIONS), evaluate, agent)
        if not was_there:  # only now, so that a mistake in the settings leaves no folder
            held.enter_context(locked(folder, subfolders=False))
            RunFolder.open(folder, spec, resume=False)
        if not finished:
            if sentence := objective_sentence(agent):
                say(sentence)
            logs = _logs(run, spec, agent, wandb, tensorboard, say)
            tracking = Tracker(logs, max(1, steps // MAX_EVENTS), agent) if logs else contextlib.nullcontext()
            with tracking as events:
                run.update_record(
                    **spec.to_json(), steps=agent.steps, finished=False, command=command, versions=versions()
                )
                TrainingLoop(run, agent, schedule, evaluations, events, watch, say).learn_until(steps)
            write_metrics(agent, run.path(METRICS))
            run.update_record(exact=exact_answers(agent), steps=agent.steps)
            draw(folder)
        asked = {EVALUATIONS: evaluate is not None, EVENTS: tensorboard}
        current = {name: agent.steps for name, wanted in asked.items() if wanted and not finished}
        if video and not (run.path(VIDEO).exists() and is_current(folder, VIDEO)):
            from perstep.app.training.video import record_video

            record_video(agent, run.path(VIDEO))
            current[VIDEO] = agent.steps
        if not finished or current:
            run.update_record(finished=True, current=run.record.get("current", {}) | current)
        return agent


def _logs(
    run: RunFolder, spec: RunSpec, agent: Agent, wandb: str | None, tensorboard: bool, say: Callable[[str], None]
) -> list[Log]:
    """The tools that show the metrics of the run."""
    logs: list[Log] = []
    if wandb is not None:  # first, since it may fail
        logs.append(online := _wandb_log(wandb, run, spec))
        say(f"Weights & Biases: {online.place}")
    return [*logs, TensorBoardLog(run.folder, agent.steps)] if tensorboard else logs


def _wandb_log(project: str, run: RunFolder, spec: RunSpec) -> WandbLog:
    """The run of Weights & Biases that the record names, or a new one, whose id the record keeps from now on."""
    kept = run.record.get("wandb")
    known = kept.get("id") if isinstance(kept, dict) and kept.get("project") == project else None
    log = WandbLog(project, known, name=run.folder.name, dir=str(run.folder), config=spec.to_json())
    run.update_record(wandb={"project": project, "id": log.id})
    return log


def draw(folder: Path) -> None:
    """Draw the figures of a run from its files."""
    from perstep.app.training import figures

    metrics, record = read_table(folder / METRICS), read_record(folder)
    evaluations = frame(read_rows(folder / EVALUATIONS)) if (folder / EVALUATIONS).exists() else None
    title = f"{record['algorithm']} in {record['world']}"
    exact = record.get("exact") or {}
    if "theta_2" in metrics.columns:
        figures.quantile_convergence(folder / QUANTILES.removesuffix(".png"), metrics, exact, title)
    figures.reward_rate(folder / REWARD_RATE.removesuffix(".png"), metrics, exact, title, evaluations)
    if metrics["episodes"].sum():
        figures.episode_return(folder / EPISODE_RETURN.removesuffix(".png"), metrics, title, evaluations)
