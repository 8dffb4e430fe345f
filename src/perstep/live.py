"""A run on the terminal: while it happens, progress and a small picture of the distribution; at its end, its numbers."""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from perstep.progress import si
from perstep.quantiles import levels

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.panel import Panel
    from rich.table import Table

    from perstep.distribution import Distribution

Floats = NDArray[np.float64]

BLOCKS = " ▁▂▃▄▅▆▇█"
PICTURE_WIDTH, PICTURE_HEIGHT = 60, 3  # characters
FRAME = 0.12  # seconds between two pictures
FIRST, PAUSE = 5.0, 30.0  # seconds until the first line, and between two, where there is no terminal
SPAN = 30.0  # seconds over which speed is measured
LINE_LEVELS = (0.05, 0.5, 0.95)  # of the quantiles in a line
SHOWN_QUANTILES = 11  # rows of a table
LEVELS, TAILS = (0.05, 0.25, 0.5, 0.75, 0.95), (0.05, 0.25)  # of the quantiles and tail means of an evaluation


class Moment(NamedTuple):
    """What there is to see of a run at one step."""

    step: int
    average_reward: float
    """R̄, the estimate."""
    reward_rate: float
    """Mean reward over the last window; NaN before the first."""
    window: int
    """Steps of that window."""
    quantiles: Floats
    """θ, (m,); one number for `differential`."""
    episode_return: float = math.nan
    """Mean return of the episodes that ended lately; NaN where none has."""
    episodes: int = 0
    """How many those were."""
    epsilon: float = math.nan
    """ε of an agent whose exploration falls."""
    loss: float = math.nan
    """Of the last minibatch of a deep agent."""


class View(ABC):
    """Shows the moments of a run that goes on until step `total`."""

    def __init__(self, title: str, total: int) -> None:
        self.title, self.total = title, total
        self.begin: Moment | None = None
        """The first moment, from which speed is measured: what comes before it is mostly the compiler."""
        self._marks: list[tuple[float, int]] = []  # when which step was made, not longer ago than speed is measured
        self._shown = time.monotonic()

    def show(self, moment: Moment) -> None:
        """Called several times a second, and shows what should be seen."""
        now = time.monotonic()
        if self.begin is None:
            self.begin, self._shown = moment, now
        if not self._marks or now - self._marks[-1][0] > SPAN / 30:
            self._marks = [mark for mark in self._marks if now - mark[0] < SPAN] or self._marks[-1:]
            self._marks.append((now, moment.step))
        self._draw(moment)

    def say(self, text: str) -> None:
        """Something that happened in between, as an evaluation."""
        print(f"perstep: {text}", file=sys.stderr, flush=True)

    @abstractmethod
    def _draw(self, moment: Moment) -> None:
        """Show a moment, or not if the last one is recent enough."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def _due(self, seconds: float) -> bool:
        """Whether so much time has passed since the last picture; if so, this one counts as shown."""
        now = time.monotonic()
        if now - self._shown < seconds:
            return False
        self._shown = now
        return True

    def _speed(self, moment: Moment) -> float:
        since, step = self._marks[0] if self._marks else (time.monotonic(), moment.step)
        return (moment.step - step) / max(time.monotonic() - since, 1e-9)

    def _time_left(self, moment: Moment) -> str:
        speed = self._speed(moment)
        return duration((self.total - moment.step) / speed) if speed > 0 else "?"


@final
class Silence(View):
    """Shows nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def _draw(self, moment: Moment) -> None:
        return None


@final
class Lines(View):
    """A plain line every now and then, for files and pipes."""

    _said = False

    def _draw(self, moment: Moment) -> None:
        if not self._due(PAUSE if self._said else min(FIRST, PAUSE)):
            return
        self._said = True
        parts = [
            f"{moment.step:,} of {self.total:,} steps ({moment.step / self.total:.0%})",
            f"{si(self._speed(moment))} steps/s, {self._time_left(moment)} left",
            f"reward rate {_number(moment.reward_rate)}",
            f"average reward {_number(moment.average_reward)}",
        ]
        if moment.episodes:
            parts.append(f"episode return {moment.episode_return:.5g}")
        if moment.quantiles.size > 1:
            numbers = zip(LINE_LEVELS, np.quantile(moment.quantiles, LINE_LEVELS), strict=True)
            parts.append("reward quantiles " + " ".join(f"{level:.0%}: {number:.4g}" for level, number in numbers))
        print(f"perstep: {', '.join(parts)}", file=sys.stderr, flush=True)


@final
class Screen(View):
    """A panel that is drawn again and again in its place."""

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
        """Above the panel, where it stays."""
        self._live.console.print(f"perstep: {text}", markup=False, highlight=False, soft_wrap=True)

    def _draw(self, moment: Moment) -> None:
        if self._due(FRAME):
            self._live.update(self._panel(moment), refresh=True)

    def _panel(self, moment: Moment) -> Panel:
        from rich.console import Group
        from rich.padding import Padding
        from rich.panel import Panel
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        numbers = Table.grid(padding=(0, 3))
        for _ in range(4):
            numbers.add_column(no_wrap=True)
        window = f" over {si(moment.window)} steps" if moment.window else ""
        numbers.add_row(
            "[dim]step[/]", f"{moment.step:,} of {self.total:,}",
            "[dim]reward rate[/]", _number(moment.reward_rate) + f"[dim]{window}[/]",
        )  # fmt: skip
        numbers.add_row(
            "[dim]speed[/]", f"{si(self._speed(moment))} steps/s, {self._time_left(moment)} left",
            "[dim]average reward[/]", _number(moment.average_reward),
        )  # fmt: skip
        if more := _more(moment):
            numbers.add_row(*more)
        bar = Padding(ProgressBar(total=self.total, completed=moment.step), 0)  # the padding ends the bar's line
        parts: list[RenderableType] = [bar, numbers]
        if moment.quantiles.size > 1:
            parts += ["", "[dim]learnt distribution of the reward per step[/]", *_coloured(moment)]
        return Panel(Group(*parts), title=self.title, title_align="left", border_style="dim", width=92)


def viewer(title: str, total: int, *, quiet: bool) -> View:
    """A panel on a terminal, lines elsewhere, nothing if that is asked for."""
    if quiet:
        return Silence(title, total)
    return (Screen if sys.stderr.isatty() else Lines)(title, total)


def picture(quantiles: Floats, mark: float, width: int = PICTURE_WIDTH, height: int = PICTURE_HEIGHT) -> list[str]:
    """Equal weights at the quantiles as a histogram of block characters, and under it an axis with a mark, at the average.

    Lines from the top; the last two are the axis and the numbers at its ends.
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
    if 0 <= place < len(axis):
        axis[place] = "▲"
    left, right = f"{low:.4g}", f"{high:.4g}"
    return [*rows, "".join(axis), left + right.rjust(bins * wide - len(left))]


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A plain table; the first column is bold."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, pad_edge=False)
    for i, header in enumerate(headers):
        made.add_column(header, style="bold" if i == 0 else "", overflow="fold")
    for row in rows:
        made.add_row(*row)
    return made


def learnt_table(moment: Moment, exact: dict[str, Any]) -> RenderableType:
    """What was learnt beside what is exact; of many quantiles, some."""
    from rich.console import Group

    truth = exact.get("quantiles")
    rows = [("average reward", f"{moment.average_reward:.6g}", _number(exact.get("average_reward", math.nan)))]
    if math.isfinite(moment.reward_rate):
        rows.append((f"reward rate, last {si(moment.window)} steps", f"{moment.reward_rate:.6g}", ""))
    if moment.episodes:
        rows.append((f"episode return, last {si(moment.episodes)} episodes", f"{moment.episode_return:.6g}", ""))
    if "optimal_average_reward" in exact:
        rows.append(("best possible average reward", "", f"{exact['optimal_average_reward']:.6g}"))
    size = moment.quantiles.size
    tau = np.asarray(levels(size))
    shown: Any = np.unique(np.linspace(0, size - 1, min(size, SHOWN_QUANTILES)).round().astype(int)) if size > 1 else []
    rows += [
        (f"{tau[i]:.3g}-quantile", f"{moment.quantiles[i]:.6g}", f"{truth[i]:.6g}" if truth else "") for i in shown
    ]
    known = "average_reward" in exact
    made = table(["", "learnt", *(["exact"] if known else [])], [row[: 3 if known else 2] for row in rows])
    if "unknown" in exact:
        return Group(made, f"[dim]No exact answer: {exact['unknown']}[/]")
    return Group(made, f"[dim]exact: {exact['what']}[/]") if known else made


def evaluation_numbers(average_reward: float, rewards: Distribution, returns: Floats) -> dict[str, Any]:
    """What an agent earned without learning, for JSON."""
    episodes: dict[str, Any] = {"count": len(returns)}
    if len(returns):
        episodes |= {"mean": float(returns.mean()), "min": float(returns.min()), "max": float(returns.max())}
    return {
        "average_reward": average_reward,
        "standard_deviation": rewards.std,
        "quantiles": {f"{level:g}": rewards.quantile(level) for level in LEVELS},
        "cvar": {f"{tail:g}": rewards.cvar(tail) for tail in TAILS},
        "episode_returns": episodes,
    }


def evaluation_table(steps: int, about: dict[str, Any]) -> Table:
    """What an agent earned without learning."""
    rows = [
        ("average reward", f"{about['average_reward']:.6g}"),
        ("standard deviation", f"{about['standard_deviation']:.6g}"),
    ]
    rows += [(f"{level}-quantile", f"{value:.6g}") for level, value in about["quantiles"].items()]
    rows += [(f"mean of the worst {float(tail):.0%} (CVaR)", f"{value:.6g}") for tail, value in about["cvar"].items()]
    episodes = about["episode_returns"]
    if episodes["count"]:
        span = f"mean {episodes['mean']:.6g}, from {episodes['min']:.6g} to {episodes['max']:.6g}"
        rows.append((f"returns of {episodes['count']:,} episodes", span))
    return table([f"{steps:,} steps", "reward per step"], rows)


def duration(seconds: float) -> str:
    """Seconds as people say them: 8 s, 3 min 5 s, 2 h 10 min, 4 days 3 h."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86_400} days {whole % 86_400 // 3600} h"


def _more(moment: Moment) -> list[str]:
    """A row about exploration and episodes, of those that have some."""
    explores, ends = not math.isnan(moment.epsilon), bool(moment.episodes)
    if not (explores or ends):
        return []
    learning = f"ε {moment.epsilon:.3g}, loss {_number(moment.loss)}" if explores else ""
    episodes = f"{_number(moment.episode_return)}[dim] over {si(moment.episodes)} episodes[/]" if ends else ""
    return ["[dim]learning[/]" if explores else "", learning, "[dim]episode return[/]" if ends else "", episodes]


def _number(value: float) -> str:
    return "…" if math.isnan(value) else f"{value:.5g}"


def _coloured(moment: Moment) -> list[RenderableType]:
    from rich.text import Text

    lines = picture(moment.quantiles, moment.average_reward)
    return [Text(line, style="cyan" if i < len(lines) - 2 else "dim") for i, line in enumerate(lines)]
