"""The parts of the paper that `perstep reproduce` can run: its studies, figures, claims and tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from perstep.inputs.errors import unknown
from perstep.paper import catalog, theory
from perstep.paper.claims import games, pendulum, redpill
from perstep.paper.claims.claim import Claim
from perstep.paper.confirmation import confirmation
from perstep.paper.figures import games as games_figures
from perstep.paper.figures import pendulum as pendulum_figures
from perstep.paper.figures import redpill as redpill_figures
from perstep.paper.figures import theory as theory_figures
from perstep.paper.figures.paper_figure import PaperFigure
from perstep.paper.tables import ATARI_TABLES, MINATAR_TABLES, Table
from perstep.studies.measurement import Measurement
from perstep.studies.results import Results
from perstep.studies.study import Study


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the paper."""

    title: str
    about: str
    studies: Sequence[Study] = ()
    measurements: Sequence[Measurement] = ()
    figures: Mapping[str, PaperFigure] = field(default_factory=dict)
    """Name → figure."""
    claims: Callable[[Results], list[Claim]] = lambda _: []
    """Judges all claims about the part from its results."""
    in_brief: tuple[tuple[str, str], ...] = ()
    """Where and what the paper claims, in few sentences: shown as not run if there are no results."""
    tables: Mapping[str, Table] = field(default_factory=dict)
    """Title → table."""
    follow_up: Callable[[Results], Results] | None = None
    """Studies that can be planned only when the results of the part are complete."""


def _only(figures: Mapping[str, PaperFigure], *names: str) -> dict[str, PaperFigure]:
    return {name: figures[name] for name in names}


PARTS = {
    "redpill": Part(
        title="Red-pill blue-pill",
        about="Two worlds, red and blue; each pill leads to its world. The blue one pays more on average, in two very different "
        "halves (App. C.1). Every answer is known exactly.",
        studies=catalog.REDPILL,
        figures=redpill_figures.FIGURES,
        claims=redpill.claims,
        in_brief=(
            ("Fig. 2c", "D2's reward quantiles converge to those of the optimal policy"),
            ("Fig. C.3", "D3's reward quantiles converge to those of the optimal policy"),
            ("Fig. C.4", "D3's return quantiles of (blue world, blue pill) converge"),
            ("Fig. 3", "D2 and D3 are competitive with Differential Q-learning"),
            ("App. C.1", "the paper's settings are the best of their grids"),
        ),
    ),
    "pendulum": Part(
        title="Inverted pendulum",
        about="Hold a rod upright, for ever: actor-critics on tiles (App. C.1). The best policy earns about 0 at every step.",
        studies=catalog.PENDULUM,
        figures=pendulum_figures.FIGURES,
        claims=pendulum.claims,
        in_brief=(
            ("Fig. C.5", "D2's reward quantiles converge to about 0, those of a balanced pendulum"),
            ("Fig. C.6", "D3's reward quantiles converge to about 0"),
            ("Fig. C.7", "D2 and D3 are competitive with Differential Actor-Critic"),
            ("App. C.1", "the paper's settings are the best of their grids"),
        ),
        follow_up=confirmation,
    ),
    "theory": Part(
        title="Theory, measured",
        about="The theorems of the appendix as measurements on small worlds whose answers are exact, and the known limits of the "
        "printed algorithms.",
        measurements=theory.MEASUREMENTS,
        figures=theory_figures.FIGURES,
        claims=theory.claims,
        in_brief=(
            ("Lemma 4.2", "the mean of the quantiles goes to the average reward as their number grows"),
            ("App. B", "the reward quantiles converge with decaying step sizes"),
            ("App. B", "the values of D2 converge under two timescales"),
            ("Theorem 4.4", "as Q converges, the average reward of the greedy policy goes to the best there is"),
        ),
    ),
    "minatar": Part(
        title="MinAtar",
        about="Small versions of Atari games, for the algorithms with networks and replay: Fig. 4 for two cores and some "
        "hours. The paper says nothing of them.",
        studies=catalog.MINATAR,
        figures=_only(games_figures.FIGURES, "figure_4", "figure_late_returns"),
        claims=games.claims,
        in_brief=(
            ("Fig. 4", "D2 and D3 outperform the non-distributional baseline, here on MinAtar"),
            ("Fig. 4", "D3 outperforms D2, here on MinAtar"),
        ),
        tables=MINATAR_TABLES,
    ),
    "minatar-tuning": Part(
        title="MinAtar, tuning",
        about="Short runs over a part of the paper's grid for Atari, of another seed, from which the settings in MinAtar were "
        "chosen.",
        studies=catalog.MINATAR_TUNING,
    ),
    "atari": Part(
        title="Atari",
        about="Breakout, BeamRider and Freeway (Sec. 5, App. C.2), on a cluster from the same catalogue; --tuned-only leaves "
        "out all of the grid but the settings of Tables C.1 to C.3.",
        studies=catalog.ATARI,
        figures=games_figures.FIGURES,
        claims=games.tuning_claims,
        in_brief=(("App. C.2", "the settings of Tables C.1 to C.3 are the best of their grids"),),
        tables=ATARI_TABLES,
    ),
    "atari-figure-4": Part(
        title="Atari, Fig. 4",
        about="The nine settings of Tables C.1 to C.3, 8 runs each as in Fig. 4, on a cluster.",
        studies=catalog.ATARI_FIGURE_4,
        figures=_only(games_figures.FIGURES, "figure_4", "figure_late_returns"),
        claims=games.claims,
        in_brief=(
            ("Fig. 4", "D2 and D3 consistently outperform the non-distributional baseline on Atari"),
            ("Fig. 4", "D3 performs better than D2 on Atari"),
        ),
    ),
    "atari-short": Part(
        title="Atari, short",
        about="Breakout with the paper's settings, one run of each algorithm, as far as a machine without a GPU comes in "
        "hours: whether they learn is to be seen, and not which is better.",
        studies=catalog.ATARI_SHORT,
        figures=_only(games_figures.FIGURES, "figure_4", "figure_c8"),
    ),
}
"""Name → part, in the order of the paper."""

BY_DEFAULT = (
    "redpill",
    "pendulum",
    "theory",
)  # these take minutes; the games take hours or a cluster, and must be named


def parts_named(names: Sequence[str]) -> list[str]:
    """These names without repetitions, or those of the default parts. Raises an error for an unknown name."""
    for name in names:
        if name not in PARTS:
            raise unknown("part of the paper", name, PARTS)
    return list(dict.fromkeys(names or BY_DEFAULT))


def belongs(folder: str, part: str) -> bool:
    """Whether a results folder, such as "atari/Breakout", holds this part of the paper or one game of it."""
    return folder == part or folder.startswith(f"{part}/")


def studies_in(folder: str) -> list[Study]:
    """The paper's studies whose results are in a folder such as "redpill" or "atari/Breakout"."""
    part = PARTS.get(folder.partition("/")[0])
    return [study for study in part.studies if belongs(study.part, folder)] if part else []
