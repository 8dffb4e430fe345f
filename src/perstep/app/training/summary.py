"""What a training run shows at its end, and what is said of a run whose world is not known."""

from __future__ import annotations

import contextlib
import json
import shlex
from pathlib import Path

from rich.console import Console
from rich.text import Text

from perstep.agent.agent import Agent
from perstep.agent.objective import objective_sentence
from perstep.app import run_view
from perstep.app.training.metrics import run_status
from perstep.app.training.run_folder import EVENTS, FILES, is_current, read_record

FORECAST_STEPS = 1_000  # of the forecast at the end of a training run


def print_run(agent: Agent, folder: Path) -> None:
    """Print the learnt numbers beside the exact ones, and the paths of the files."""
    console = Console()
    exact = read_record(folder).get("exact") or {}
    console.print(run_view.learnt_table(run_status(agent), exact))
    if agent.reset_cost:  # not known when the run began
        console.print(Text(objective_sentence(agent)))
    if agent.config.risk_level < 1.0:
        console.print(
            f"the worst {100 * agent.config.risk_level:g} % of the steps earn {agent.risk_adjusted_reward:.6g} on average"
        )
    if agent.config.forecast:
        with contextlib.suppress(ValueError):  # rewards whose squares are infinite
            console.print(str(agent.forecast(FORECAST_STEPS)), highlight=False)
    for name in FILES:
        if (folder / name).exists() and is_current(folder, name):
            console.print(Text(str(folder / name), style="dim"), soft_wrap=True)
    if is_current(folder, EVENTS):
        console.print(Text(f"tensorboard --logdir {folder}", style="dim"), soft_wrap=True)


def needs_its_world(folder: Path, name: str) -> str:
    """What to say of a run in a world whose module nothing has imported: a file alone never makes us import one."""
    spec = read_record(folder)
    settings = [f"{key}={json.dumps(value)}" for key, value in (spec.get("world_settings") or {}).items()]
    more = ["--world-settings", *settings] if settings else []
    command = shlex.join(["perstep", "evaluate", str(folder), "--world", str(spec.get("world", name)), *more])
    return f"This run is in a world of your own, {spec.get('world', name)}, which a file alone cannot bring. Use: {command}"
