"""The catalog is the paper's Appendix C, counted."""

from __future__ import annotations

import pytest

from perstep.inputs.errors import UnknownName
from perstep.paper.catalog import (
    ATARI,
    ATARI_FIGURE_4,
    ATARI_SHORT,
    MINATAR,
    MINATAR_TUNING,
    PENDULUM,
    REDPILL,
    SCALES,
    scale_named,
)
from perstep.rules.lattice import ALGORITHMS
from perstep.studies.study import setting_name
from perstep.tabular.settings import QLearningConfig
from perstep.tiles.settings import ActorCriticConfig

STUDIES = {
    study.name: study
    for study in (*REDPILL, *PENDULUM, *ATARI, *ATARI_FIGURE_4, *MINATAR, *MINATAR_TUNING, *ATARI_SHORT)
}

EVERY = pytest.mark.parametrize("study", STUDIES.values(), ids=lambda study: study.name)


def test_the_grids_have_the_paper_s_sizes():
    assert [len(study.settings) for study in REDPILL] == [35, 70, 70]
    assert [len(study.settings) for study in PENDULUM] == [120, 240, 240]
    assert [len(study.settings) for study in ATARI] == 3 * [24, 48, 48]  # a row a game
    ours = (*MINATAR, *MINATAR_TUNING, *ATARI_SHORT)
    assert len(STUDIES) == 15 + len(ATARI_FIGURE_4) + len(ours)  # no two have one name


def test_figure_4_has_eight_runs_of_the_tuned_settings():
    for study, tuned in zip(ATARI_FIGURE_4, ATARI, strict=True):
        assert study.settings == [tuned.tuned]
        assert (study.num_runs, study.steps, study.world) == (8, tuned.steps, tuned.world)


@EVERY
def test_a_figure_s_setting_is_in_the_grid(study):
    assert study.tuned in study.settings or study in MINATAR_TUNING
    assert study.traced is None or study.traced in study.settings
    for setting in filter(None, (study.tuned, study.traced)):
        assert list(setting) == list(study.grid)  # since a file is named in this order


@EVERY
def test_every_configuration_has_a_name_of_its_own_and_settings_that_its_algorithm_accepts(study):
    names = [setting_name(setting) for setting in study.settings]
    assert len(set(names)) == len(names)
    assert not any("/" in name for name in names)
    for setting in study.settings:
        ALGORITHMS[study.algorithm].config.of({"preset": "paper", "rule": study.rule.name, **study.fixed, **setting})


@EVERY
@pytest.mark.parametrize("scale", SCALES.values(), ids=lambda scale: scale.name)
def test_a_scale_changes_steps_and_runs_only(study, scale):
    scaled = study.at(scale)
    assert scaled.settings == study.settings
    assert scaled.steps <= study.steps
    assert scaled.num_runs <= study.num_runs
    assert scaled.steps % scaled.window == 0  # so that the windows' rates average to the average reward


def test_the_pendulum_s_settings_are_the_paper_s():
    for study in PENDULUM:
        scaled = study.at(scale_named("paper"))
        assert (scaled.world, scaled.steps, scaled.num_runs) == ("perstep/InvertedPendulum-v0", 10_000, 10)
        assert scaled.seeds == [1000 * i for i in range(10)]
        assert scaled.grid["step_size"] == (2e-4, 2e-3, 2e-2, 2e-1)
        assert scaled.grid["reward_ratio"] == (1e-3, 1e-2, 1e-1, 1.0, 2.0)
        assert scaled.grid["policy_ratio"] == (1e-2, 1e-1, 1.0, 2.0, 10.0, 100.0)
        assert scaled.fixed == {
            "tilings": 32, "tiles": 8, "huber": 1.0, "initial_average_reward": 0.0, "initial_value": 0.0,
        }  # fmt: skip
    differential, d2, d3 = PENDULUM
    assert differential.tuned == {"step_size": 2e-2, "reward_ratio": 1e-2, "policy_ratio": 1e-1}
    assert d2.tuned == {"step_size": 2e-2, "reward_ratio": 1e-1, "policy_ratio": 1e-1, "num_quantiles": 10}
    assert d3.tuned == {"step_size": 2e-1, "reward_ratio": 1e-3, "policy_ratio": 1e-1, "num_quantiles": 10}
    assert (differential.traced, d2.traced, d3.traced) == (None, d2.tuned, d3.tuned)  # Fig. C.5 and C.6
    defaults = ActorCriticConfig()
    assert (defaults.divide_by_tilings, defaults.wrap, defaults.table_size) == (False, (), None)


def test_atari_s_settings_are_the_paper_s():
    fixed = {
        "replay_capacity": 100_000, "learning_starts": 100, "batch_size": 32, "target_step_size": 0.005, "huber": 1.0,
        "initial_average_reward": 0.25,
    }  # fmt: skip
    ours = {"initial_epsilon": 1.0, "epsilon": 0.05, "epsilon_steps": 50_000, "update_every": 4, "adam_epsilon": 1e-8}
    for study in ATARI:
        assert study.world in ("ALE/Breakout-v5", "ALE/BeamRider-v5", "ALE/Freeway-v5")
        assert (study.steps, study.num_runs) == (3_000_000 if "Freeway" in study.world else 1_000_000, 5)
        assert study.grid["step_size"] == (2e-6, 2e-5, 2e-4, 2e-3)
        assert study.grid["reward_ratio"] == (1e-2, 1e-1, 1.0, 2.0, 10.0, 100.0)
        tracking = {"reward_tracking": "batch-mean"} if study.rule.has_reward_quantiles else {}
        assert study.fixed == fixed | ours | tracking
    assert ATARI[1].name == "atari/Breakout/d2-deep-q"


def test_minatar_s_settings_come_from_a_part_of_atari_s_grid():
    for study, tuning, like in zip(MINATAR, MINATAR_TUNING, (*ATARI[:3], *ATARI[6:]), strict=True):
        assert study.game == tuning.game == like.game
        assert study.settings == [study.tuned]
        assert study.tuned in tuning.settings
        assert dict(study.fixed) == like.fixed | {
            "epsilon_steps": 25_000,
            "update_every": 8,
        }  # less to do, on two cores
        assert study.fixed == tuning.fixed
        assert all(set(values) <= set(like.grid[name]) for name, values in tuning.grid.items())
        assert not set(study.seeds) & set(tuning.seeds)  # what picked the setting has no part in its results


def test_a_piece_of_a_part_has_a_key_of_its_own():
    assert [(study.key, study.game) for study in (REDPILL[1], ATARI[1])] == [
        ("d2-q", ""),
        ("Breakout/d2-deep-q", "Breakout"),
    ]


def test_the_paper_s_scale_is_the_paper():
    for study in REDPILL:
        scaled = study.at(scale_named("paper"))
        assert (scaled.steps, scaled.num_runs) == (100_000, 50)
        assert scaled.seeds == [1000 * i for i in range(50)]
        assert scaled.fixed == {"epsilon": 0.1, "initial_average_reward": 0.0, "initial_value": 0.0}
    differential, d2, d3 = REDPILL
    assert differential.tuned == {"step_size": 2e-3, "reward_ratio": 2.0}
    assert d2.tuned == {"step_size": 2e-3, "reward_ratio": 2.0, "num_quantiles": 51}
    assert d3.tuned == {"step_size": 2e-2, "reward_ratio": 2.0, "num_quantiles": 51}
    assert differential.traced is None
    assert d2.traced == d3.traced == {"step_size": 2e-4, "reward_ratio": 2.0, "num_quantiles": 10}
    assert QLearningConfig().termination == "continue"  # nothing ends here, and no default says otherwise


def test_names_and_descriptions_stay_what_they_are():
    study = REDPILL[1]
    assert study.name == "redpill/d2-q"
    assert setting_name(study.tuned) == "step_size=0.002,reward_ratio=2,num_quantiles=51"
    assert study.description(study.tuned) == (
        '{"algorithm": "d2-q", "settings": {"epsilon": 0.1, "initial_average_reward": 0.0, "initial_value": 0.0, '
        '"num_quantiles": 51, "reward_ratio": 2.0, "step_size": 0.002}, "steps": 100000, "window": 100, '
        '"world": "perstep/RedPillBluePill-v0"}'
    )


def test_an_unknown_scale_is_refused_with_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'small'"):
        scale_named("smal")
