"""The report: all that is in the files is on the page, nothing in them can harm it, and a wrong folder is a sentence."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from perstep.app.cli import main
from perstep.paper.parts import PARTS
from perstep.paper.report import report, sections
from perstep.paper.report.markup import element, join
from perstep.paper.report.titles import figure_title
from report_samples import CLAIMS, PROVENANCE, write_part, write_runs

VOID = {"meta", "img", "input", "br"}


class Page(HTMLParser):
    """The elements of a page, its text, and whether all that opens closes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def every(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    @property
    def ids(self) -> list[str]:
        return [str(attributes["id"]) for _, attributes in self.elements if "id" in attributes]


def page_of(folder: Path) -> Page:
    return Page(report(folder).read_text("utf-8"))


def test_claims_come_first_each_with_its_verdict_and_figure(tmp_path):
    write_part(tmp_path)
    page = page_of(tmp_path)
    for claim in CLAIMS:
        assert all(claim[key] in page.text for key in ("where", "says", "measured", "tolerance"))
    rows = [row for row in page.every("tr") if "data-verdict" in row]
    unrun = sum(len(part.in_brief) for name, part in PARTS.items() if name != "redpill")
    assert [row["data-verdict"] for row in rows] == [claim["verdict"] for claim in CLAIMS] + ["not run"] * unrun
    links = [link["href"] for link in page.every("a")]
    assert {"#fig-redpill-small-figure_2", "#fig-redpill-small-figure_c4"} <= set(links)
    assert "Figure 3 is not drawn" in page.text
    assert page.ids[0] == "claims"


def test_every_link_leads_somewhere_and_no_name_is_given_twice(tmp_path):
    write_part(tmp_path)
    write_part(tmp_path, scale="smoke")
    write_part(tmp_path, "theory", "paper", figures=("lyapunov",))
    page = page_of(tmp_path)
    assert len(page.ids) == len(set(page.ids))
    for link in page.every("a"):
        assert str(link["href"]).removeprefix("#") in page.ids


def test_counts_are_of_the_fullest_scale(tmp_path):
    write_part(tmp_path, scale="smoke", claims=[CLAIMS[1]] * 3)
    write_part(tmp_path, scale="paper", claims=[CLAIMS[0]] * 2)
    text = report(tmp_path).read_text("utf-8")
    unrun = sum(len(part.in_brief) for name, part in PARTS.items() if name != "redpill")
    for verdict, count in {"holds": 2, "does not hold": 0, "not run": unrun}.items():
        assert re.search(rf'data-verdict="{verdict}"><b>{count}</b>', text)
    assert text.index("Scale paper:") < text.index("The same at scale smoke")


def test_figures_are_in_the_page_in_the_paper_s_order_with_caption_setting_and_command(tmp_path):
    write_part(tmp_path)
    page = page_of(tmp_path)
    images = page.every("img")
    assert str(images[0]["alt"]).split(".")[0] == "Figure\N{NO-BREAK SPACE}2"
    assert len(images) == 2
    assert all(str(image["src"]).startswith("data:image/png;base64,") for image in images)
    assert "converge to the quantiles of the limiting per-step reward distribution" in page.text
    assert "d2-q: α = 0.0002, η = 2, m = 10" in page.text
    assert f"perstep reproduce redpill --scale small --out {tmp_path}" in page.text


def test_parts_that_were_not_run_say_how_to_run_them(tmp_path):
    write_part(tmp_path)
    text = page_of(tmp_path).text
    for name in PARTS.keys() - {"redpill"}:
        assert f"perstep reproduce {name} --scale paper --out {tmp_path}" in text


def test_sensitivity_sets_the_best_beside_the_paper_s(tmp_path):
    # Seeds 0 and 1000. The paper's (α = 0.002, η = 2) earns −0.62 and −0.60; η = 1 earns 0.02 more in both runs, so the
    # difference is 0.02 without any spread; η = 10 earns 0.05 and 0.03 less: −0.04 ± 1.96 · 0.0141 / √2 = 0.0196.
    folder = write_part(tmp_path)
    rewards = {
        "step_size=0.002,reward_ratio=2": [-0.62, -0.60],
        "step_size=0.002,reward_ratio=1": [-0.60, -0.58],
        "step_size=0.002,reward_ratio=10": [-0.67, -0.63],
    }
    write_runs(folder, "differential-q", rewards)
    text = page_of(tmp_path).text
    assert "Best of 3: η = 1. The paper's, η = 2, has rank 2, 0.02 behind." in text
    assert "1 1 −0.590 ± 0.020" in text  # rank, η, reward
    assert "−0.040 ± 0.020" in text
    assert "6 runs, 6k steps" in text


def test_sensitivity_says_how_far_apart_the_curves_are(tmp_path):
    # Seed 0: 0.2 and 0.4 apart, seed 1000: 0.4 and 0.4. Means 0.3 and 0.4, so 0.35; errors of the mean 0.1 and 0, times √(2/π).
    folder = write_part(tmp_path)
    curves = {
        "step_size=0.002,reward_ratio=2": [[0.0, 0.0], [0.0, 0.0]],
        "step_size=0.002,reward_ratio=1": [[0.2, 0.4], [0.4, 0.4]],
    }
    means = {name: [sum(curve) / 2 for curve in runs] for name, runs in curves.items()}
    write_runs(folder, "differential-q", means, curves=curves)
    text = page_of(tmp_path).text
    assert "their rewards per step are 0.35 apart on average; luck alone would make about 0.04." in text


def test_timing_and_provenance(tmp_path):
    folder = write_part(tmp_path)
    write_runs(folder, "d2-q", {"step_size=0.002,reward_ratio=2,num_quantiles=51": [-0.6] * 5})
    text = page_of(tmp_path).text
    assert "Red-pill blue-pill small 5 5k 2 min 5 s 40 a second" in text
    assert "commit 0123abcd" in text
    assert "versions perstep 0.1.0, numpy 2.4.6" in text


@pytest.mark.parametrize(("scale", "words"), [("smoke", "verdicts say nothing of the paper"), ("small", "more noise")])
def test_verdicts_of_short_runs_come_with_a_caution(tmp_path, scale, words):
    write_part(tmp_path, scale=scale)
    assert words in page_of(tmp_path).text
    write_part(tmp_path, scale="paper")
    assert words not in page_of(tmp_path).text


HOSTILE = "<script>alert('x')</script><img src=http://evil.example/x onerror=alert(1)>\"'&"


def test_what_files_say_is_text_and_nothing_more(tmp_path):
    claim = dict.fromkeys(CLAIMS[0], HOSTILE) | {"verdict": "holds"}
    folder = write_part(tmp_path, claims=[claim], provenance={HOSTILE: {HOSTILE: [HOSTILE]}})
    write_runs(folder, "d2-q", {"step_size=0.002,reward_ratio=2": [-0.6, -0.6]}, error=HOSTILE)
    write_part(tmp_path, "<b>part", figures=("<i>figure",))
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    (folder / "figures" / "drawn.svg").write_text(svg)
    text = report(tmp_path).read_text("utf-8")
    page = Page(text)
    assert HOSTILE in "".join(page.words)
    assert len(page.every("script")) == 1
    assert {str(image["src"]).partition(":")[0] for image in page.every("img")} == {"data"}
    assert len(page.every("b")) == 3  # the counts
    assert "onerror" not in {name for _, attributes in page.elements for name in attributes}
    assert svg not in text


def test_only_our_script_and_style_may_run_and_nothing_is_fetched(tmp_path):
    write_part(tmp_path)
    page = page_of(tmp_path)
    (policy,) = [str(meta["content"]) for meta in page.every("meta") if "http-equiv" in meta]
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert policy.count("sha256-") == 2
    assert not page.every("link")
    assert not any("style" in attributes for _, attributes in page.elements)


def test_failures_and_damaged_files_are_told_and_the_rest_is_shown(tmp_path):
    folder = write_part(tmp_path)
    write_runs(folder, "d2-q", {"step_size=0.002,reward_ratio=2": [-0.6, -0.6]}, error="ValueError: a NaN reward")
    (folder / "d2-q" / "cut.parquet").write_bytes(b"PAR1 and then nothing")
    (folder / "figures" / "figure_3.png").write_bytes(b"not a picture")
    (folder / "provenance.json").write_text("{")
    (folder / "claims.json").write_text(json.dumps([CLAIMS[0], {"verdict": "perhaps"}, 7]))
    text = page_of(tmp_path).text
    assert "1 of 2 runs failed" in text
    assert "ValueError: a NaN reward" in text
    for name in ("cut.parquet", "figure_3", "provenance.json", "without one of the verdicts"):
        assert name in text
    assert CLAIMS[0]["says"] in text


def test_claims_of_another_form_do_not_stop_the_page(tmp_path):
    folder = write_part(tmp_path)
    (folder / "claims.json").write_text('{"not": "a list"}')
    text = page_of(tmp_path).text
    assert "should hold a list, but it holds a dict" in text
    assert PARTS["redpill"].in_brief[0][1] in text  # as not run


def test_a_study_of_a_user_s_own_and_a_piece_of_a_part(tmp_path):
    write_part(tmp_path, "queue", "", claims=[], provenance={"command": "perstep sweep queue.yaml"}, figures=())
    write_part(tmp_path, "atari/Breakout", "paper", claims=[CLAIMS[0]], figures=())
    page = page_of(tmp_path)
    assert "Atari, Breakout" in page.text
    assert "perstep reproduce atari --scale paper" in page.text
    assert "Made by perstep sweep queue.yaml" in page.text


def test_the_report_of_a_user_s_own_study_is_about_that_study(tmp_path):
    write_part(tmp_path, "queue", "", claims=[], provenance={"command": "perstep sweep queue.yaml"}, figures=())
    text = page_of(tmp_path).text
    assert "Results of queue" in text
    assert "paper's claims" not in text
    assert "not run" not in text.lower()


def test_a_study_of_one_s_own_has_curves_and_differences_from_its_best(tmp_path):
    """The intervals of both settings, −3.159 ± 0.27 and −3.151 ± 0, are on one axis, from −3.43 to −2.89."""
    folder = write_part(tmp_path, "queue", "", claims=[], provenance={}, figures=())
    rewards = {"step_size=0.1,reward_ratio=1": [-3.297, -3.021], "step_size=0.2,reward_ratio=1": [-3.151, -3.151]}
    curves = {name: [[2 * run, 0.0] for run in runs] for name, runs in rewards.items()}
    write_runs(folder, "d2-q", rewards, curves=curves)
    write_runs(folder, "sarsa", {"step_size=0.1,reward_ratio=1": [-4.0, -4.0]})  # one setting, and no curve
    page = page_of(tmp_path)
    assert "paper" not in page.text
    assert "beside the best 1 0.2 −3.151 2 0.1 −3.16 ± 0.27 −0.01 ± 0.27" in page.text
    assert "−3.429 ● the best, bars: 95 % intervals −2.889" in page.text
    assert "One setting: −4 per step." in page.text
    (image,) = page.every("img")
    assert image["alt"] == "Learning curves in perstep/RedPillBluePill-v0."
    bars = [line for line in page.every("line") if line.get("class") == "bar"]
    assert [(bar["x1"], bar["x2"]) for bar in bars] == [("2.00%", "98.00%"), ("51.42%", "51.42%")]


@pytest.mark.parametrize("curves", [[[1.0], [1.0, 2.0]], [[], []], [["a"], ["b"]]])
def test_curves_that_are_none_are_left_out(tmp_path, curves):
    folder = write_part(tmp_path, "queue", "", claims=[], provenance={}, figures=())
    write_runs(folder, "sarsa", {"step_size=0.1": [-4.0, -4.0]}, curves={"step_size=0.1": curves})
    page = page_of(tmp_path)
    assert not page.every("img")
    assert "One setting: −4 per step." in page.text


def test_a_part_of_several_games(tmp_path):
    folder = write_part(tmp_path, "minatar", "paper", claims=[], figures=("figure_4",))
    for game in ("Breakout", "Freeway"):
        write_runs(folder / game, "d2-deep-q", {"step_size=0.0002,reward_ratio=1,num_quantiles=10": [0.5, 0.6]})
    page = page_of(tmp_path)
    assert "4 runs, 4k steps" in page.text
    assert "consistently outperform the non-distributional baseline" in page.text
    for game in ("Breakout", "Freeway"):
        assert re.search(rf"{game}/d3-deep-q: α = \S+, η = \S+, m = 51", page.text)
    (folder / "provenance.json").unlink()
    (folder / "claims.json").unlink()
    (folder / "figures" / "figure_4.png").unlink()
    assert "4 runs, 4k steps" in page_of(tmp_path).text  # runs alone are enough to be found


def test_the_tables_of_the_paper_are_there_before_and_after_the_runs(tmp_path):
    write_part(tmp_path)
    assert "Table C.3: Tuned Hyperparameters for the D3 Q-learning Algorithm" in page_of(tmp_path).text
    atari = {"command": "perstep reproduce atari --tuned-only --scale paper"}
    write_part(tmp_path, "atari", "paper", provenance=atari, figures=())
    text = page_of(tmp_path).text
    assert text.count("Differential Return Quantile Step Size 2e-5 2e-4 2e-5") == 1
    assert f"perstep reproduce atari --scale paper --out {tmp_path} --tuned-only" in text


def test_runs_beside_a_sweep_are_no_part_of_it(tmp_path):
    folder = write_part(tmp_path)
    rewards = {"step_size=0.002,reward_ratio=2": [-0.62], "step_size=0.002,reward_ratio=1": [-0.60]}
    write_runs(folder, "differential-q", rewards)
    (folder / "confirmation").mkdir()
    write_runs(folder / "confirmation", "differential-q", {"step_size=0.002,reward_ratio=2": [-0.1] * 9})
    text = page_of(tmp_path).text
    assert "2 runs, 2k steps" in text
    assert "Best of 2: η = 1." in text


def test_a_page_stays_small(tmp_path, monkeypatch):
    write_part(tmp_path)
    whole = page_of(tmp_path)
    monkeypatch.setattr(sections, "PICTURES_AT_MOST", len(str(whole.every("img")[0]["src"])))
    page = page_of(tmp_path)
    assert len(page.every("img")) == 1
    assert "Left out to keep this page small; it is in redpill/small/figures/figure_c4" in page.text


def test_same_results_same_page_and_nothing_else_is_left(tmp_path):
    write_part(tmp_path)
    first = report(tmp_path).read_bytes()
    assert report(tmp_path, tmp_path / "deep" / "other.html").read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "redpill", "report.html"]


def test_the_command(tmp_path, capsys):
    write_part(tmp_path)
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "a.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "a.html")


@pytest.mark.parametrize(
    ("folder", "sentence"),
    [
        ("nowhere", "nowhere does not exist. Give the folder"),
        ("file", "file is not a folder. Give the folder"),
        ("empty", "empty holds no results, such as redpill/paper/claims.json. To make some: perstep reproduce"),
        ("results/redpill", "The folder of all results is"),
        ("results/redpill/small", "The folder of all results is"),
    ],
)
def test_a_wrong_folder_is_a_sentence(tmp_path, capsys, folder, sentence):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    write_part(tmp_path / "results")
    assert main(["report", str(tmp_path / folder)]) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.err.count("\n") == 1
    assert not list(tmp_path.rglob("*.html"))


def test_a_folder_in_the_page_s_place_is_refused(tmp_path, capsys):
    write_part(tmp_path)
    assert main(["report", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "is a folder. Give the name of the page" in capsys.readouterr().err


def test_markup_escapes_what_it_did_not_make():
    assert element("p", "<&>", element("br"), title='"', hidden=True, id=None) == (
        '<p title="&quot;" hidden>&lt;&amp;&gt;<br></p>'
    )
    assert join("a<", [element("b", "c"), ("d", None)]) == "a&lt;<b>c</b>d"


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("figure_2", "Figure 2"),
        ("figure_c2_d3", "Figure C.2, D3"),
        ("figure_settings", "Settings"),
        ("lyapunov_falls", "Lyapunov falls"),
    ],
)
def test_titles_of_figures(name, title):
    assert figure_title(name).replace("\N{NO-BREAK SPACE}", " ") == title


def test_provenance_may_be_empty(tmp_path):
    write_part(tmp_path, provenance={})
    assert "Nothing is recorded." in page_of(tmp_path).text
    assert PROVENANCE["commit"] not in page_of(tmp_path).text
