"""Tables C.1 to C.3 say what the paper's say."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from perstep.paper.catalog import ATARI, MINATAR, PENDULUM
from perstep.paper.tables import ATARI_TABLES, MINATAR_TABLES, Table, games_table, tuned_settings
from perstep.studies.notation import printed

# As printed in the paper, cell by cell.
PRINTED = {
    "Table C.1": (
        ("Value Function Step Size", "2e-5", "2e-6", "2e-3"),
        ("Average-Reward η", "10.0", "1e-2", "10.0"),
    ),
    "Table C.2": (
        ("Value Function Step Size", "2e-5", "2e-3", "2e-5"),
        ("Per-Step Reward Quantile η", "100.0", "100.0", "2.0"),
        ("Number of Quantiles", "10", "10", "10"),
    ),
    "Table C.3": (
        ("Differential Return Quantile Step Size", "2e-5", "2e-4", "2e-5"),
        ("Per-Step Reward Quantile η", "100.0", "1.0", "2.0"),
        ("Number of Quantiles", "51", "51", "51"),
    ),
}
EVERY = pytest.mark.parametrize("name", PRINTED)


@EVERY
def test_cells_are_the_paper_s(name):
    table = ATARI_TABLES[name]
    assert table.columns == ("Breakout", "BeamRider", "Freeway")
    assert table.rows == PRINTED[name]


def test_captions_name_the_algorithm():
    assert [table.caption.split(" in the ")[0].rpartition("for the ")[2] for table in ATARI_TABLES.values()] == [
        "Differential Q-learning Algorithm (Alg. 13)",
        "D2 Q-learning Algorithm (Alg. 6)",
        "D3 Q-learning Algorithm (Alg. 10)",
    ]


def test_latex_has_the_paper_s_form():
    lines = games_table(ATARI, "differential-deep-q").latex().splitlines()
    assert r"\begin{tabular}{|l|c|c|c|}" in lines
    assert r" & \textbf{Breakout} & \textbf{BeamRider} & \textbf{Freeway} \\" in lines
    assert r"Average-Reward \(\eta\) & 10.0 & 1e-2 & 10.0 \\" in lines


def test_markdown_is_a_table():
    lines = games_table(ATARI, "d2-deep-q").markdown().splitlines()
    assert lines[:3] == [
        "|  | Breakout | BeamRider | Freeway |",
        "|---|---|---|---|",
        "| Value Function Step Size | 2e-5 | 2e-3 | 2e-5 |",
    ]


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found, self.open = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag in ("th", "td"):
            self.found.append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("th", "td"):
            self.found[-1] += data


@EVERY
def test_html_holds_the_same_cells(name):
    cells = Cells()
    cells.feed(ATARI_TABLES[name].html())
    assert cells.found == ["", "Breakout", "BeamRider", "Freeway", *(cell for row in PRINTED[name] for cell in row)]
    assert not cells.open


def test_html_escapes():
    table = Table(caption="a < b", columns=("<script>",), rows=(("&", "1"),))
    assert "<script>" not in table.html()
    assert "&amp;" in table.html()


def test_minatar_has_its_own():
    for rule, (name, table) in zip(("differential", "d2", "d3"), MINATAR_TABLES.items(), strict=True):
        assert table.columns == ("MinAtar-Breakout", "MinAtar-Freeway")
        assert "in the MinAtar Experiments" in table.caption
        tuned = [study.tuned for study in MINATAR if study.rule.name == rule]
        assert table.rows[0][1:] == tuple(printed(setting["step_size"]) for setting in tuned), name


def test_other_worlds_have_tables_too():
    table = tuned_settings([PENDULUM[2]], "D3")
    assert table.columns == ("InvertedPendulum",)
    assert ("Policy η", "1e-1") in table.rows
    with pytest.raises(ValueError, match="one algorithm, got d2-deep-q, differential-deep-q"):
        tuned_settings(ATARI[:2], "both")
    with pytest.raises(ValueError, match="one of differential-deep-q, d2-deep-q, d3-deep-q, got 'd4-deep-q'"):
        games_table(ATARI, "d4-deep-q")


@pytest.mark.parametrize(("value", "text"), [(2e-5, "2e-5"), (0.1, "1e-1"), (1.0, "1.0"), (100.0, "100.0"), (51, "51")])
def test_numbers_are_written_as_the_paper_does(value, text):
    assert printed(value) == text
