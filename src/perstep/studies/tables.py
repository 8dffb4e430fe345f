"""Tables C.1 to C.3, the tuned settings in Atari, and ours in MinAtar, from the catalog as Markdown, LaTeX or HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from perstep.algorithms import algorithm
from perstep.studies.catalog import ATARI, MINATAR, Study

ROWS = {
    "step_size": {"d3": "Differential Return Quantile Step Size", "": "Value Function Step Size"},
    "reward_ratio": {"differential": "Average-Reward η", "": "Per-Step Reward Quantile η"},
    "policy_ratio": {"": "Policy η"},
    "num_quantiles": {"": "Number of Quantiles"},
}
"""Setting → rule → what the paper calls it; "" for the other rules."""

NAMES = {"differential": "Differential", "d2": "D2", "d3": "D3"}


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of text under a caption; the first column names the rows."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """For a page of the documentation."""
        lines = [f"| {' | '.join(('', *self.columns))} |", f"|---|{'---|' * len(self.columns)}"]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in self.rows), "", self.caption]) + "\n"

    def latex(self) -> str:
        r"""For a paper, in the form of its own tables."""
        body = [r" & ".join(_latex(cell) for cell in row) + r" \\" for row in self.rows]
        head = " & ".join(["", *(rf"\textbf{{{column}}}" for column in self.columns)]) + r" \\"
        lines = [
            r"\begin{table}[h!]", r"\centering", rf"\begin{{tabular}}{{|l|{'c|' * len(self.columns)}}}", r"\hline", head,
            r"\hline", *body, r"\hline", r"\end{tabular}", rf"\caption{{{_latex(self.caption)}}}", r"\end{table}",
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """For a page of its own style."""
        head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in ("", *self.columns))
        body = "".join(
            f'<tr><th scope="row">{html.escape(name)}</th>{"".join(f"<td>{html.escape(cell)}</td>" for cell in cells)}</tr>'
            for name, *cells in self.rows
        )
        caption = f"<caption>{html.escape(self.caption)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>\n"


def tuned_settings(studies: Sequence[Study], caption: str) -> Table:
    """What the paper found best for one algorithm, a column a world."""
    rule, names = studies[0].rule, studies[0].tuned
    if any(study.algorithm != studies[0].algorithm for study in studies):
        raise ValueError(
            f"A table is about one algorithm, but {', '.join(sorted({study.algorithm for study in studies}))} came."
        )
    rows = tuple(
        (ROWS[name].get(rule, ROWS[name][""]), *(written(study.tuned[name]) for study in studies)) for name in names
    )
    return Table(caption=caption, columns=tuple(world_name(study) for study in studies), rows=rows)


def games_table(every: Sequence[Study], rule: str, where: str = "ALE") -> Table:
    """The tuned settings of a rule in all games: of Atari Table C.1 (differential), C.2 (d2) or C.3 (d3)."""
    studies = [study for study in every if study.rule == rule]
    if not studies:
        raise ValueError(f"There is a table for {', '.join(NAMES)}, but {rule!r} came.")
    source = algorithm(studies[0].algorithm).source
    caption = f"Tuned Hyperparameters for the {NAMES[rule]} Q-learning Algorithm ({source}) in the {where} Experiments."
    return tuned_settings(studies, caption)


def written(value: float) -> str:
    """A number as the paper writes it: 2e-5, 1e-2, 1.0, 100.0, and 10 if it counts something."""
    if isinstance(value, int):
        return str(value)
    return f"{value:.0e}".replace("e-0", "e-") if value < 1 else f"{value:.1f}"


def world_name(study: Study) -> str:
    """As in "Breakout" for "ALE/Breakout-v5", and "MinAtar-Breakout" for that of MinAtar."""
    return study.world.partition("/")[2].rpartition("-v")[0]


def _latex(text: str) -> str:
    return text.replace("η", r"\(\eta\)").replace("%", r"\%").replace("_", r"\_")


ATARI_TABLES = {f"Table C.{number}": games_table(ATARI, rule) for number, rule in enumerate(NAMES, 1)}
"""The paper's name for it → the table."""

MINATAR_TABLES = {f"Settings, {NAMES[rule]}": games_table(MINATAR, rule, "MinAtar") for rule in NAMES}
"""Our counterparts of them → the table."""
