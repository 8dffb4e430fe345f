"""What the command line shows of a run: while it learns, progress and a histogram of the rewards; at the end, tables.

The numbers are those of every other screen (agent/earned.py).
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from perstep.agent.earned import mean_sentences, rows, with_interval
from perstep.display.progress import duration, si
from perstep.distributions.distribution import SHOWN as LEVELS
from perstep.distributions.distribution import TAILS, ThinTail
from perstep.numerics.quantiles import levels

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.panel import Panel
    from rich.table import Table

    from perstep.distributions.distribution import Distribution

Floats = NDArray[np.float64]

BLOCKS = " ▁▂▃▄▅▆▇█"
HISTOGRAM_WIDTH, HISTOGRAM_HEIGHT = 60, 3  # characters
REDRAW = 0.12  # seconds between two updates of the panel
FIRST_LINE, LINE_EVERY = 5.0, 30.0  # seconds before the first line, and between two lines, without a terminal
SPEED_WINDOW = 30.0  # seconds over which the speed is measured
PICTURED = 200  # quantiles in the histogram


class RunStatus(NamedTuple):
    """The numbers of a run at one step."""

    step: int
    average_reward: float
    """R̄, the learner's own estimate."""
    earned: Distribution | None = None
    """The recent rewards, as they were counted; None before the first step."""
    learned: Distribution | None = None
    """The distribution that the agent itself has learnt; None where it learns the average alone."""
    episode_return: float = math.nan
    """Mean return of the last episodes; NaN if no episode has ended."""
    episodes: int = 0
    """Number of those episodes."""
    epsilon: float = math.nan
    """ε of an agent whose exploration decays; NaN for others."""
    loss: float = math.nan
    """Loss of the last minibatch of a deep agent; NaN for others."""
    sentences: tuple[str, ...] = ()
    """What has to be said where two of the numbers seem to contradict each other."""
    findings: tuple[str, ...] = ()
    """What is probably wrong, in sentences."""
    learnt: str = "R̄"
    """What the learnt numbers are."""


class RunView(ABC):
    """Shows a run that ends at step `total`."""

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total = title, total
        self.begin: RunStatus | None = None
        """The first status. The speed is measured from it on, because the time before it is mostly compilation."""
        self._marks: list[tuple[float, int]] = []  # (time, step) pairs of the last SPEED_WINDOW seconds
        self._shown = time.monotonic()

    def show(self, status: RunStatus) -> None:
        """Show the status, if the last one was shown long enough ago. To be called several times a second."""
        now = time.monotonic()
        if self.begin is None:
            self.begin, self._shown = status, now
        if not self._marks or now - self._marks[-1][0] > SPEED_WINDOW / 30:
            self._marks = [mark for mark in self._marks if now - mark[0] < SPEED_WINDOW] or self._marks[-1:]
            self._marks.append((now, status.step))
        self._draw(status)

    def say(self, text: str) -> None:
        """Print a message about an event, such as an evaluation."""
        print(f"perstep: {text}", file=sys.stderr, flush=True)

    @abstractmethod
    def _draw(self, status: RunStatus) -> None:
        """Draw the status, unless the last drawing is recent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def _due(self, seconds: float) -> bool:
        """Whether this many seconds have passed since the last drawing; if so, the clock restarts."""
        now = time.monotonic()
        if now - self._shown < seconds:
            return False
        self._shown = now
        return True

    def _speed(self, status: RunStatus) -> float:
        since, step = self._marks[0] if self._marks else (time.monotonic(), status.step)
        return (status.step - step) / max(time.monotonic() - since, 1e-9)

    def _time_left(self, status: RunStatus) -> str:
        speed = self._speed(status)
        return duration((self.total - status.step) / speed) if speed > 0 else "?"


@final
class NoView(RunView):
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Print nothing."""

    def _draw(self, status: RunStatus) -> None:
        return None


@final
class LineView(RunView):
    """Prints a plain line from time to time, for files and pipes."""

    _printed = False

    def _draw(self, status: RunStatus) -> None:
        if not self._due(LINE_EVERY if self._printed else min(FIRST_LINE, LINE_EVERY)):
            return
        self._printed = True
        parts = [
            f"{status.step:,} of {self.total:,} steps ({status.step / self.total:.0%})",
            f"{si(self._speed(status))} steps/s, {self._time_left(status)} left",
            f"earned {_mean(status)}",
        ]
        if status.earned is not None:
            wanted = [row for row in rows(status.earned) if row.name != "mean"]
            parts += [f"{row.name} {row.value:.4g}" for row in (wanted[0], wanted[2], wanted[4], wanted[5])]
        if status.episodes:
            parts.append(f"episode return {status.episode_return:.5g}")
        print(f"perstep: {', '.join(parts)}", file=sys.stderr, flush=True)


@final
class PanelView(RunView):
    """Redraws a panel in place, on a terminal."""

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        self._live: Any = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """Print a message above the panel."""
        self._live.console.print(f"perstep: {text}", markup=False, highlight=False, soft_wrap=True)

    def _draw(self, status: RunStatus) -> None:
        if self._due(REDRAW):
            self._live.update(self._panel(status), refresh=True)

    def _panel(self, status: RunStatus) -> Panel:
        from rich.console import Group
        from rich.padding import Padding
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        numbers = Table.grid(padding=(0, 3))
        for _ in range(4):
            numbers.add_column(no_wrap=True)
        numbers.add_row(
            "[dim]step[/]", f"{status.step:,} of {self.total:,}", "[dim]earned per step[/]", _mean(status),
        )  # fmt: skip
        numbers.add_row(
            "[dim]speed[/]", f"{si(self._speed(status))} steps/s, {self._time_left(status)} left",
            "[dim]mean of the worst 10 %[/]", _row(status, "worst 10 %"),
        )  # fmt: skip
        if row := _exploration_and_episodes(status):
            numbers.add_row(*row)
        bar = Padding(
            ProgressBar(total=self.total, completed=status.step), 0
        )  # with padding, the bar ends with a line break
        parts: list[RenderableType] = [bar, numbers]
        if status.earned is not None:
            counted = f"[dim]rewards of the last {si(status.earned.num_samples or 0)} steps, ▲ their mean[/]"
            parts += ["", counted, *_coloured_histogram(status.earned)]
        parts += [Text(f"\n{finding}", style="yellow") for finding in status.findings[:1]]
        return Panel(Group(*parts), title=self.title, title_align="left", border_style="dim", width=92)


def run_view(title: str, total: int, *, quiet: bool) -> RunView:
    """A panel on a terminal, lines elsewhere, nothing if `quiet`."""
    if quiet:
        return NoView(title, total)
    return (PanelView if sys.stderr.isatty() else LineView)(title, total)


def text_histogram(
    quantiles: Floats, mark: float, width: int = HISTOGRAM_WIDTH, height: int = HISTOGRAM_HEIGHT
) -> list[str]:
    """A histogram of the quantiles in block characters, and below it an axis with a triangle at `mark`, or at the end beyond which
    it lies.

    Returns the lines from top to bottom. The last two are the axis and the numbers at its ends.
    """
    low, high = float(quantiles.min()), float(quantiles.max())
    if not math.isfinite(high - low):
        return ["(not finite)"]
    bins = max(1, min(width, 3 * quantiles.size))
    wide = width // bins
    spread = high - low if high > low else 1.0
    position = np.clip(((quantiles - low) / spread * bins).astype(int), 0, bins - 1)
    counts = np.bincount(position, minlength=bins)
    eighths = np.ceil(counts / counts.max() * 8 * height).astype(int)  # (bins,)
    rows = []
    for row in reversed(range(height)):
        filled = np.clip(eighths - 8 * row, 0, 8)
        rows.append("".join(BLOCKS[level] * wide for level in filled))
    place = round((mark - low) / spread * (bins * wide - 1)) if math.isfinite(mark) else -1
    axis = ["─"] * (bins * wide)
    if math.isfinite(mark):
        axis[min(max(place, 0), len(axis) - 1)] = "▲" if low <= mark <= high else "◀" if mark < low else "▶"
    left, right = f"{low:.4g}", f"{high:.4g}"
    return [*rows, "".join(axis), left + right.rjust(bins * wide - len(left))]


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A plain table whose first column is bold."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, header in enumerate(headers):
        made.add_column(header, style="bold" if i == 0 else "", overflow="fold", no_wrap=i == 0)
    for row in rows:
        made.add_row(*row)
    return made


def learnt_table(status: RunStatus, exact: dict[str, Any]) -> RenderableType:
    """What was earned, beside what the agent has learnt, and beside exact answers where they are known."""
    from rich.console import Group
    from rich.text import Text

    truth = {"mean": exact["average_reward"], **exact.get("rows", {})} if "average_reward" in exact else {}
    learnt = {"mean": status.average_reward}
    if status.learned is not None:
        learnt |= {row.name: row.value for row in rows(status.learned)[1:]}
    counted = {} if status.earned is None else {row.name: row for row in rows(status.earned)}
    shown = []
    for name in dict.fromkeys([*counted, *learnt]):
        own = with_interval(*counted[name][1:]) if name in counted else ""
        cells = (f"{numbers[name]:.5g}" if name in numbers else "" for numbers in (learnt, truth))
        shown.append(("reward per step" if name == "mean" else name, own, *cells))
    if status.episodes:
        shown.append((f"episode return, last {si(status.episodes)} episodes", f"{status.episode_return:.5g}", "", ""))
    if "optimal_average_reward" in exact:
        shown.append(("best possible average reward", "", "", f"{exact['optimal_average_reward']:.5g}"))
    headers = ["", "earned", "learnt", *(["exact"] if truth else [])]
    made = table(headers, [row[: len(headers)] for row in shown])
    below: list[RenderableType] = []
    if status.earned is not None:
        below.append(
            f"[dim]earned: in its last {status.earned.num_samples:,} steps, with 95 % intervals; learnt: {status.learnt}[/]"
        )
    if "unknown" in exact:
        below.append(f"[dim]No exact answer: {exact['unknown']}[/]")
    elif truth:
        below.append(f"[dim]exact: {exact['what']}[/]")
    below += [Text(sentence) for sentence in status.sentences]
    below += [Text(f"Finding: {finding}", style="yellow") for finding in status.findings]
    return Group(made, *below)


def evaluation_numbers(
    average_reward: float, rewards: Distribution, returns: Floats, tails: Sequence[float] = TAILS
) -> dict[str, Any]:
    """The result of an evaluation, for JSON. `tails`: the levels of CVaR. `sentences`, `thin_tails`: texts, if there are any."""
    episodes: dict[str, Any] = {"count": len(returns)}
    if len(returns):
        episodes |= {"mean": float(returns.mean()), "min": float(returns.min()), "max": float(returns.max())}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ThinTail)
        quantiles = {f"{level:g}": rewards.quantile(level) for level in LEVELS}
        cvar = {f"{tail:g}": rewards.cvar(tail) for tail in tails}
    few = math.isnan(rewards.mean_error)
    numbers = {
        "average_reward": average_reward,
        "average_reward_error": None if few else rewards.mean_error,
        "standard_deviation": rewards.std,
        "quantiles": quantiles,
        "cvar": cvar,
        "cvar_error": {f"{tail:g}": None if few else rewards.cvar_error(tail) for tail in tails},
        "episode_returns": episodes,
    }
    said = {"sentences": mean_sentences(rewards), "thin_tails": [str(one.message) for one in caught]}
    return {**numbers, **{name: texts for name, texts in said.items() if texts}}


def evaluation_table(steps: int, about: dict[str, Any]) -> Table:
    """The result of an evaluation, for people."""

    def shown(value: float, error: float | None) -> str:
        return with_interval(value, math.nan if error is None else error)

    lines = [("mean", shown(about["average_reward"], about["average_reward_error"]))]
    lines += [(f"{100 * float(level):g} % quantile", f"{value:.5g}") for level, value in about["quantiles"].items()]
    lines += [
        (f"mean of the worst {100 * float(tail):g} %", shown(value, about["cvar_error"][tail]))
        for tail, value in about["cvar"].items()
    ]
    lines.append(("standard deviation", f"{about['standard_deviation']:.5g}"))
    episodes = about["episode_returns"]
    if episodes["count"]:
        span = f"mean {episodes['mean']:.6g}, from {episodes['min']:.6g} to {episodes['max']:.6g}"
        lines.append((f"returns of {episodes['count']:,} episodes", span))
    made = table([f"{steps:,} steps", "reward per step"], lines)
    said = [f"{steps:,} steps are too few for a standard error."] if about["average_reward_error"] is None else []
    made.caption = " ".join([*said, *about.get("sentences", []), *about.get("thin_tails", [])[:1]]) or None
    return made


def _exploration_and_episodes(status: RunStatus) -> list[str]:
    """The third row of the panel; empty without decaying exploration and without episodes."""
    explores, ends = not math.isnan(status.epsilon), bool(status.episodes)
    if not (explores or ends):
        return []
    learning = f"ε {status.epsilon:.3g}, loss {_number(status.loss)}" if explores else ""
    episodes = f"{_number(status.episode_return)}[dim] over {si(status.episodes)} episodes[/]" if ends else ""
    return ["[dim]learning[/]" if explores else "", learning, "[dim]episode return[/]" if ends else "", episodes]


def _number(value: float) -> str:
    return "…" if math.isnan(value) else f"{value:.5g}"


def _mean(status: RunStatus) -> str:
    found = status.earned
    if found is None:
        return "…"
    return f"{with_interval(found.mean, found.mean_error)} over {si(found.num_samples or 0)} steps"


def _row(status: RunStatus, name: str) -> str:
    if status.earned is None:
        return "…"
    return next(with_interval(*row[1:]) for row in rows(status.earned) if name in row.name)


def _coloured_histogram(found: Distribution) -> list[RenderableType]:
    from rich.text import Text

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ThinTail)
        lines = text_histogram(found.quantile(np.asarray(levels(PICTURED))), found.mean)
    return [Text(line, style="cyan" if i < len(lines) - 2 else "dim") for i, line in enumerate(lines)]
