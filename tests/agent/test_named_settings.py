"""No hidden switches: a setting that is named at the value that help() shows changes nothing."""

from __future__ import annotations

import dataclasses
import inspect
import typing

import numpy as np
import pytest

import perstep
from perstep.rules import presets
from perstep.rules.transition import RULES

WORLDS = {
    "QLearning": "perstep/RedPillBluePill-v0",
    "TDLearning": "perstep/RedPillBluePill-v0",
    "ActorCritic": "perstep/InvertedPendulum-v0",
    "TileQ": "perstep/InvertedPendulum-v0",
    "DeepQ": "perstep/InvertedPendulum-v0",
}
IN_PLACE_OF = {
    "objective": {"centered", "discount", "termination"},
    "reward_step_size": {"reward_ratio"},
    "reward_ratio": {"reward_step_size"},
    "offset_ratio": {"average_step_size"},
    "scale_free": {"optimism"},
    "trace_decay": {"step_size", "policy_ratio"},
    "rule": {"trace_decay", "step_size", "horizon"},
    "risk_level": {"rule", "return_steps", "risk_heads"},
    "horizon": {"return_steps"},
    "reward_tracking": {"return_steps"},
    "replay_capacity": {"learning_starts"},
    "target_step_size": {"target_lag"},
    "target_lag": {"target_step_size"},
}
"""Setting → the preset's values that it takes the place of, or that would contradict it. The help of one of the two says so."""
OTHER_VALUES = (0.0, 0.5, 1.0, 2.0, 0, 1, 3, 100, None, True, False, perstep.Decay(0.5, 0.3))
CASES = [(name, preset) for name in WORLDS for preset in presets.PRESETS]
SETTINGS = [(name, preset) for name in (*WORLDS, "SoftActorCritic", "Planner") for preset in presets.PRESETS]


def shown(name, preset):
    """What help() shows in a preset, by name."""
    config = getattr(perstep, name).Config
    fields = {field.name: field.default for field in dataclasses.fields(config)}
    return {**fields, **config.preset_settings({"preset": preset})}


def literals(hint):
    """The words that a setting may be."""
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)
    return tuple(word for part in typing.get_args(hint) for word in literals(part))


def learnt(name, **settings):
    if name == "DeepQ":
        pytest.importorskip("torch")
    given = ([0, 1],) if name == "TDLearning" else ()
    agent = getattr(perstep, name)(WORLDS[name], *given, **settings).learn(300, progress=False)
    return {"theta": agent._rewards.theta, "offset": agent._rewards.offset, **agent._arrays()}


@pytest.mark.parametrize("name", WORLDS)
def test_help_shows_the_default_preset(name):
    parameters = inspect.signature(getattr(perstep, name)).parameters
    for setting, value in shown(name, "steady").items():
        assert parameters[setting].default == value


@pytest.mark.parametrize(("name", "preset"), SETTINGS)
def test_the_value_that_is_shown_is_the_value(name, preset):
    config = getattr(perstep, name).Config
    plain = config.of({"preset": preset})
    assert plain.settings() == shown(name, preset)
    for setting, value in shown(name, preset).items():
        assert config.of({"preset": preset, setting: value}) == plain, setting


@pytest.mark.parametrize(("name", "preset"), SETTINGS)
def test_a_setting_changes_no_other_one_but_what_it_stands_for(name, preset):
    config = getattr(perstep, name).Config
    plain, hints = config.of({"preset": preset}).settings(), typing.get_type_hints(config)
    words = {"rule": tuple(RULES), "preset": ()}
    for setting in plain:
        for value in (*words.get(setting, literals(hints[setting])), *OTHER_VALUES):
            try:
                found = config.of({"preset": preset, setting: value}).settings()
            except ValueError:  # refused
                continue
            changed = {other for other in found if found[other] != plain[other]} - {setting}
            assert changed <= IN_PLACE_OF.get(setting, set()), (setting, value)


@pytest.mark.parametrize(("name", "preset"), CASES)
def test_all_settings_named_at_once_give_the_same_bits(name, preset):
    found, expected = learnt(name, **shown(name, preset)), learnt(name, preset=preset)
    assert found.keys() == expected.keys()
    for array, value in expected.items():
        np.testing.assert_array_equal(found[array], value, err_msg=array)


def test_rules_differ_where_they_should():
    agents = {
        rule: perstep.QLearning("perstep/RedPillBluePill-v0", rule=rule, seed=1).learn(5_000, progress=False)
        for rule in ("differential", "d2", "categorical")
    }
    averages = {agent.average_reward for agent in agents.values()}
    values = {tuple(agent.all_action_values.ravel()) for agent in agents.values()}
    assert len(averages) == len(values) == 3
