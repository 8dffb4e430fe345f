"""The tuned settings in Atari (Tables C.1 to C.3) and in MinAtar (ours), from the catalog, as Markdown, LaTeX or HTML."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

from perstep.paper.catalog import ATARI, MINATAR
from perstep.rules.lattice import algorithm
from perstep.studies.notation import label, printed, row_name, world_name
from perstep.studies.study import Study


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of text with a caption. The first cell of a row is its name."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """For the documentation."""
        lines = [f"| {' | '.join(('', *self.columns))} |", f"|---|{'---|' * len(self.columns)}"]
        return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in self.rows), "", self.caption]) + "\n"

    def latex(self) -> str:
        """For a paper, in the form of the paper's own tables."""
        body = [r" & ".join(_latex(cell) for cell in row) + r" \\" for row in self.rows]
        head = " & ".join(["", *(rf"\textbf{{{column}}}" for column in self.columns)]) + r" \\"
        lines = [
            r"\begin{table}[h!]", r"\centering", rf"\begin{{tabular}}{{|l|{'c|' * len(self.columns)}}}", r"\hline", head,
            r"\hline", *body, r"\hline", r"\end{tabular}", rf"\caption{{{_latex(self.caption)}}}", r"\end{table}",
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """For a web page, without any style."""
        head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in ("", *self.columns))
        body = "".join(
            f'<tr><th scope="row">{html.escape(name)}</th>{"".join(f"<td>{html.escape(cell)}</td>" for cell in cells)}</tr>'
            for name, *cells in self.rows
        )
        caption = f"<caption>{html.escape(self.caption)}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>\n"


def tuned_settings(studies: Sequence[Study], caption: str) -> Table:
    """The tuned settings of one algorithm, with one column per world."""
    first = studies[0]
    if any(study.algorithm != first.algorithm for study in studies):
        given = ", ".join(sorted({study.algorithm for study in studies}))
        raise ValueError(f"A table must be about one algorithm, got {given}. Make one table per algorithm.")
    rows = tuple((row_name(name, first), *(printed(study.tuned[name]) for study in studies)) for name in first.tuned)
    return Table(caption=caption, columns=tuple(world_name(study) for study in studies), rows=rows)


def games_table(every: Sequence[Study], name: str, where: str = "ALE") -> Table:
    """The tuned settings of an algorithm in all games, for example Table C.1 for differential-deep-q in Atari."""
    studies = [study for study in every if study.algorithm == name]
    if not studies:
        known = ", ".join(_algorithms(every))
        raise ValueError(f"The algorithm of a table must be one of {known}, got {name!r}.")
    rule, source = label(studies[0]), algorithm(name).source
    caption = f"Tuned Hyperparameters for the {rule} Q-learning Algorithm ({source}) in the {where} Experiments."
    return tuned_settings(studies, caption)


def _algorithms(every: Sequence[Study]) -> dict[str, str]:
    """Algorithm → label, in the order of the studies."""
    return {study.algorithm: label(study) for study in every}


def _latex(text: str) -> str:
    return text.replace("η", r"\(\eta\)").replace("%", r"\%").replace("_", r"\_")


ATARI_TABLES = {f"Table C.{number}": games_table(ATARI, name) for number, name in enumerate(_algorithms(ATARI), 1)}
"""The paper's name of a table → the table."""

MINATAR_TABLES = {
    f"Settings, {rule}": games_table(MINATAR, name, "MinAtar") for name, rule in _algorithms(MINATAR).items()
}
"""Our counterparts of the paper's tables."""
