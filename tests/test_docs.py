"""The documentation as readers use it: its Python runs and prints what is written under it, its links lead somewhere, and
everything public is in the reference."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

import perstep

DOCS = Path(__file__).parent.parent / "docs"
PAGES = {path.relative_to(DOCS).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}

# A block of code: its language, what is in it, and the output under it if the next thing is a block without a language.
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n(?:\n?```\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
NOT_RUN = "# not run"
SHOWN_BY = {
    1: ("tests/tabular/test_learning.py::test_access_control_is_near_its_optimum",),
    2: ("tests/tabular/test_learning.py::test_td_errors_fall_with_the_steps",),
    3: ("tests/deep/test_agents.py::test_average_reward_policy_and_quantiles_of_the_two_pills",),
    4: ("tests/rules/test_baselines.py::test_centered_q_is_naik_et_al",),
    5: ("tests/deep/test_peers.py::test_discounted_quantile_loss_is_that_of_sb3_contrib",),
    6: ("tests/deep/test_losses.py::test_d3_is_algorithm_10",),
    7: ("tests/distributions/test_distribution.py::test_red_pill_cvar",),
    8: ("tests/agent/test_verbs.py::test_return_quantiles_are_for_d3",),
    9: ("tests/agent/test_determinism.py::test_a_file_at_any_moment_goes_on",),
    10: (
        "tests/test_benchmarks.py::test_every_registered_world_of_operations_is_in_it",
        "tests/test_benchmarks.py::test_every_registered_world_of_motion_is_in_it",
    ),
    11: ("tests/mdp/test_evaluation_and_solving.py",),
    12: ("tests/agent/test_verbs.py::test_evaluation_is_exact_within_its_error",),
    13: ("tests/app/training/test_run.py::test_panel_on_a_terminal",),
    14: ("tests/worlds/test_registry.py",),
    15: ("tests/agent/test_verbs.py::test_a_time_limit_is_not_bypassed",),
    16: ("tests/gym/test_spaces.py::test_composed_actions_are_learnt",),
    17: ("tests/gym/test_vector.py::test_every_mode_tells_the_same",),
    18: ("tests/test_readme.py",),
    19: ("tests/agent/test_determinism.py::test_threads_change_nothing",),
    20: ("tests/agent/test_verbs.py::test_the_compiled_pendulum_and_the_plain_loop_learn_alike",),
    21: ("tests/studies/test_sweep.py::test_a_sweep_ends_with_a_table_the_best_first",),
    22: ("tests/studies/test_engines.py::test_kills_at_random_moments_lose_and_repeat_nothing",),
    23: ("tests/studies/test_engines.py::test_trouble_in_one_run_is_recorded_and_the_others_go_on",),
    24: ("tests/deep/test_saving.py::test_saved_loaded_and_gone_on_is_never_stopped",),
    25: ("tests/agent/test_determinism.py::test_a_file_at_any_moment_goes_on",),
    26: ("tests/deep/test_saving.py::test_every_game_of_minatar_goes_on",),
    27: ("tests/app/training/test_run.py::test_killed_process_goes_on_to_the_bit",),
    28: ("tests/files/test_storage.py::test_a_killed_process_leaves_the_previous_file",),
    29: ("tests/files/test_storage.py::test_a_pickle_is_never_run",),
    30: ("tests/agent/test_determinism.py::test_same_seed_same_bits_other_seed_other_life",),
    31: ("tests/agent/test_world_check.py",),
    32: ("tests/deep/test_replay.py::test_frames_are_kept_once",),
    33: ("tests/deep/test_replay.py::test_larger_than_memory_is_refused",),
    34: ("tests/deep/test_losses.py::test_compiled_loss_is_the_plain_one",),
    35: ("tests/gym/test_vector.py::test_the_vector_of_ale_in_its_own_threads",),
    36: ("tests/user_script.py",),
    37: ("tests/app/test_cli.py",),
    38: ("tests/agent/test_tracking.py::test_curves_and_a_distribution_of_a_deep_agent",),
    39: ("tests/studies/test_statistics.py::test_intervals_are_rliable_s",),
    40: ("tests/paper/test_reproduction.py",),
    41: ("tests/test_readme.py",),
    42: ("tests/deep/continuous/test_sac_agent.py::test_continuous_actions_are_learnt",),
    43: ("tests/deep/continuous/test_sac_agent.py::test_continuous_actions_are_learnt",),
}
"""Row of beside-others.md → the tests that show what its cell about perstep says."""
SETTINGS = SimpleNamespace(**runpy.run_path(str(DOCS / "learners" / "settings.py")))


def examples(text: str) -> list[tuple[str, str]]:
    """The Python of a page, block by block, each with the output that the page promises."""
    blocks = (found.groups(default="") for found in BLOCK.finditer(text))
    return [
        (code, output) for language, code, output in blocks if language == "python" and not code.startswith(NOT_RUN)
    ]


def links(text: str) -> list[str]:
    """Where links and pictures of a page lead, those within the documentation only."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`\n]*`", "", prose)
    targets = re.findall(r"\]\(([^)\s]+)\)", prose)
    return [target for target in targets if not re.match(r"[a-z]+:|#", target)]


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if examples(text)])
@pytest.mark.filterwarnings("default::UserWarning")  # perstep's own advice to readers, such as that of tiles
def test_python_runs_and_prints_what_is_written_under_it(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "results").symlink_to(DOCS / "results")
    names: dict[str, object] = {"__name__": "__main__"}
    for code, output in examples(PAGES[page]):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, page, "exec"), names)
        if output:
            assert printed.getvalue() == output


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if links(text)])
def test_links_lead_somewhere(page: str) -> None:
    broken = [link for link in links(PAGES[page]) if not (DOCS / page).parent.joinpath(link.partition("#")[0]).exists()]
    assert not broken


@pytest.mark.parametrize("name", perstep.__all__)
def test_everything_public_is_in_the_reference(name: str) -> None:
    assert re.search(rf"perstep\.{name}\b", PAGES["reference.md"])


def test_every_page_is_in_the_navigation() -> None:
    listed = re.findall(r"[\w./-]+\.md", (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(PAGES), "Every page of docs/ has one line under `nav` in mkdocs.yml."


def test_every_test_that_a_page_names_exists() -> None:
    """A name such as `test_theorem_bound_holds`, or a file such as `tests/tabular/test_kernel.py`."""
    tests = Path(__file__).parent
    known = "\n".join(path.read_text(encoding="utf-8") for path in tests.rglob("test_*.py"))
    for page, text in PAGES.items():
        for file in re.findall(r"\btests/[\w/]+\.py", text):
            assert (tests.parent / file).exists(), f"{page} names {file}, which does not exist."
        for name in re.findall(r"\btest_\w+\b(?!\.py)", text):
            assert f"def {name}(" in known, f"{page} names {name}, which does not exist."


def test_every_place_in_the_code_that_a_page_names_exists() -> None:
    """A place such as `rules/transition: d3`: a module and its functions."""
    for page, text in PAGES.items():
        for module, names in re.findall(r"`([a-z]+/[a-z_]+): ([\w, ]+)`", text):
            code = (DOCS.parent / "src" / "perstep" / f"{module}.py").read_text(encoding="utf-8")
            for name in names.split(", "):
                assert re.search(rf"\bdef {name}\(", code), (
                    f"{page} names {name} of {module}, which has no such function."
                )


def test_every_world_has_a_picture_with_its_command() -> None:
    """Each page of a world shows a picture, and says how it was drawn."""
    drawn = (DOCS / "worlds" / "pictures.py").read_text(encoding="utf-8")
    for page, text in PAGES.items():
        if page.startswith("worlds/") and page != "worlds/comparison.md":
            named = {name for command in re.findall(r"pictures\.py ([\w -]+)`", text) for name in command.split()}
            shown = {link.removesuffix(".png") for link in links(text) if link.endswith(".png")}
            assert shown, f"{page} has no picture."
            assert shown == named, f"{page} shows {shown}, and says how to draw {named}."
            assert all(f'"{name}": (' in drawn for name in named)


def test_every_cell_about_us_has_its_test() -> None:
    rows = [int(number) for number in re.findall(r"^\| (\d+) \|", PAGES["beside-others.md"], re.MULTILINE)]
    assert rows == list(SHOWN_BY)
    for file, _, test in (place.partition("::") for places in SHOWN_BY.values() for place in places):
        text = (DOCS.parent / file).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in text, f"{file} has no {test}"


@pytest.mark.parametrize("page", SETTINGS.LEARNERS_OF_PAGE)
def test_every_setting_is_on_its_page_with_its_defaults(page: str) -> None:
    text = PAGES[f"learners/{page}"]
    assert not SETTINGS.missing(page, text, PAGES["learners/tables.md"])
    assert SETTINGS.filled(page, text) == text, "Run `python docs/learners/settings.py`."
