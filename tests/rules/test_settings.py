"""Settings: impossible ones refused with a sentence that names them, possible ones kept through files."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re

import numpy as np
import pytest

import perstep
from perstep.deep.settings import DeepQConfig
from perstep.inputs.checks import LONGEST_SHOWN, shown
from perstep.inputs.errors import UnknownName, unknown
from perstep.rules import presets
from perstep.rules import transition as rules
from perstep.rules.lattice import ALGORITHMS, CORNERS, algorithm
from perstep.rules.settings import LearnerConfig
from perstep.rules.transition import RULES
from perstep.tabular import kernel as tabular
from perstep.tabular import loop as finite_worlds
from perstep.tabular.settings import QLearningConfig, TDLearningConfig
from perstep.tiles import kernel as linear
from perstep.tiles import loop as motion_worlds
from perstep.tiles.settings import ActorCriticConfig, TileConfig, TileQConfig

CONFIGS = [TDLearningConfig, QLearningConfig, ActorCriticConfig, TileQConfig]
NO_NUMBERS = [math.nan, math.inf, -math.inf, "0.1", None, True, [0.1], 1j, 10**400]


def refused(config, name, value, *, kind=ValueError):
    """The sentence with which a setting is refused: it names the setting and shows what it got."""
    with pytest.raises(kind) as caught:
        config(**{name: value})
    sentence = str(caught.value)
    assert name in sentence
    assert shown(value) in sentence or str(value)[:LONGEST_SHOWN] in sentence
    assert sentence.endswith(".")
    return sentence


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("value", [0, 0.0, -0.1, *NO_NUMBERS])
def test_step_size(config, value):
    sentence = refused(config, "step_size", value)
    assert sentence.startswith("step_size must be a finite number above 0, got")
    if value is not None:
        refused(config, "reward_step_size", value)


@pytest.mark.parametrize("value", [-0.1, -1e-300, *NO_NUMBERS])
def test_ratios(value):
    for config in CONFIGS:
        assert "0 or more" in refused(config, "offset_ratio", value)
        if value is not None:
            assert "0 or more" in refused(config, "reward_ratio", value)
    for name in ("policy_ratio", "huber"):
        assert "0 or more" in refused(ActorCriticConfig, name, value)
    assert "0 or more" in refused(TileQConfig, "huber", value)


def test_a_ratio_is_no_schedule():
    refused(QLearningConfig, "reward_ratio", perstep.Decay(0.1))


@pytest.mark.parametrize("value", [-0.001, 1.001, 5, *NO_NUMBERS])
def test_epsilon(value):
    assert "between 0 and 1" in refused(QLearningConfig, "epsilon", value)
    assert "between 0 and 1" in refused(TileQConfig, "epsilon", value)


@pytest.mark.parametrize("config", [*CONFIGS, DeepQConfig])
@pytest.mark.parametrize("value", [-0.001, 1.001, 5, *NO_NUMBERS])
def test_discount(config, value):
    assert "above 0 and at most 1" in refused(config, "discount", value)


@pytest.mark.parametrize("config", [*CONFIGS, DeepQConfig])
@pytest.mark.parametrize("value", ["no", None, 1, 0])
def test_centered(config, value):
    assert "True or False" in refused(config, "centered", value)


@pytest.mark.parametrize("config", [QLearningConfig, TileQConfig])
@pytest.mark.parametrize("value", ["sarsa", "Greedy", None, True, 1])
def test_bootstrap(config, value):
    assert "Known: expected, greedy, sampled." in refused(config, "bootstrap", value, kind=UnknownName)


@pytest.mark.parametrize("config", [QLearningConfig, TileQConfig])
def test_quantiles_have_no_expected_bootstrap(config):
    with pytest.raises(ValueError, match=r"but those of rule='d3' are 51 quantiles.*Use bootstrap='sampled'"):
        config(rule="d3", bootstrap="expected", num_quantiles=51)
    assert config(rule="d3", bootstrap="expected", num_quantiles=1).value_size == 1
    assert config(rule="d2", bootstrap="expected").bootstrap == "expected"


@pytest.mark.parametrize("config", [QLearningConfig, TileQConfig])
@pytest.mark.parametrize("value", [3, None, (1,), (1, -1), (1, 0.5), (1, 2, 3), [0, True]])
def test_reference(config, value):
    with pytest.raises(ValueError, match="reference must be 'mean', 'max' or a pair"):
        config(rule="rvi", reference=value)
    with pytest.raises(UnknownName, match=r"no reference 'min'.*Known: max, mean"):
        config(rule="rvi", reference="min")


def test_the_largest_value_is_not_known_on_tiles():
    with pytest.raises(ValueError, match="The maximum of Q over a box is not known on tiles"):
        TileQConfig(rule="rvi", reference="max")
    assert QLearningConfig(rule="rvi", reference="max").reference == "max"


@pytest.mark.parametrize("config", [TDLearningConfig, ActorCriticConfig])
def test_rvi_is_for_action_values(config):
    with pytest.raises(ValueError, match=r"The rule 'rvi' reads the average reward from action values.*Use QLearning"):
        config(rule="rvi")


def test_rvi_is_not_for_networks():
    with pytest.raises(ValueError, match=r"'rvi' is not written for networks\. The rules of DeepQ are 'differential'"):
        DeepQConfig(rule="rvi")


@pytest.mark.parametrize("value", [0, -3, 1.5, 2.0, "10", True, [10], math.inf])
def test_numbers_of_quantiles(value):
    for name in ("num_quantiles", "num_reward_quantiles", "num_return_quantiles"):
        assert "whole number of at least 1" in refused(QLearningConfig, name, value)


def test_no_number_of_quantiles():
    refused(QLearningConfig, "num_quantiles", None)
    assert QLearningConfig(rule="d3", num_reward_quantiles=None, num_quantiles=7).theta_size == 7


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_first_guesses_and_costs(value):
    for name in ("initial_average_reward", "initial_value", "reset_cost"):
        if value is not None or name != "initial_average_reward":
            refused(TDLearningConfig, name, value)


@pytest.mark.parametrize("value", [-1, 1.5, "0", None, True])
def test_seed(value):
    assert "whole number of at least 0" in refused(TDLearningConfig, "seed", value)


@pytest.mark.parametrize(
    ("rule", "meant"), [("D2", "d2"), ("d33", "d3"), ("diferential", "differential"), ("d-2", "d2")]
)
def test_unknown_rule_suggests_the_nearest_and_lists_all(rule, meant):
    sentence = refused(QLearningConfig, "rule", rule, kind=UnknownName)
    assert f"There is no rule {rule!r}. Did you mean {meant!r}?" in sentence
    assert "Known: categorical, d2, d3, differential, rvi." in sentence


@pytest.mark.parametrize("rule", ["", "categorical!", None, 3, ["d2"]])
def test_unknown_rule_lists_all(rule):
    assert "Known: categorical, d2, d3, differential, rvi." in refused(QLearningConfig, "rule", rule, kind=UnknownName)


@pytest.mark.parametrize("value", ["end", "Continue", None, True])
def test_termination(value):
    assert "Known: continue, mask, stop." in refused(QLearningConfig, "termination", value, kind=UnknownName)


EPISODIC = {"centered": False, "discount": 1.0, "termination": "mask"}


@pytest.mark.parametrize("config", [*CONFIGS, DeepQConfig])
@pytest.mark.parametrize("preset", presets.PRESETS)
def test_an_objective_stands_for_three_settings_and_they_for_it(config, preset):
    assert config.of({"preset": preset}).objective == "reward per step"
    named = config.of({"preset": preset, "objective": "return per episode"})
    assert {name: getattr(named, name) for name in EPISODIC} == EPISODIC
    assert config.of({"preset": preset, **EPISODIC}) == named
    assert config.from_json(json.loads(json.dumps(named.to_json()))) == named
    discounted = config.of({"preset": preset, **EPISODIC, "discount": 0.9})
    assert discounted.objective == "reward per step"


def test_what_a_masked_end_is_worth_and_what_it_takes():
    # Where R̄ is subtracted, what follows an end is −R̄/(1 − γ) if all stops and 0 if it is masked, and so it is to returns around
    # their mean. Where it is not, an end is worth 0 and takes R̄ for each of the 100 steps that the unit of returns looks ahead.
    def found(**settings):
        return QLearningConfig(**settings).end_divisors

    assert found(termination="mask") == (math.inf, math.inf)
    assert found(termination="stop", discount=0.9) == pytest.approx((0.1, 0.1))
    assert found(objective="return per episode", **EPISODIC) == pytest.approx((math.inf, 0.01))


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"discount": 0.9}, "termination='mask', got discount=0.9. Leave it out"),
        ({"centered": True}, "got centered=True. "),
        ({"termination": "continue"}, "got termination='continue'. "),
        ({"risk_level": 0.5}, "risk_level=0.5 is about the reward per step."),
        ({"rule": "rvi"}, "'rvi' needs an average that is subtracted"),
        ({"objective": "reward"}, "Known: return per episode, reward per step."),
        ({"objective": ["return per episode"]}, "Known: return per episode, reward per step."),
        ({"objective": "reward per step", **EPISODIC}, "Use objective='return per episode'."),
    ],
)
def test_what_contradicts_an_objective_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        QLearningConfig.of({"objective": "return per episode", **settings})


@pytest.mark.parametrize("rule", ["differential", "rvi"])
def test_offset_is_for_d2_and_d3(rule):
    with pytest.raises(
        ValueError,
        match=rf"The rule '{rule}' has no learned offset\. Use rule='d2' or rule='d3' or rule='categorical', or offset_ratio=0",
    ):
        QLearningConfig(rule=rule, offset_ratio=0.1)
    assert QLearningConfig(rule=rule, offset_ratio=0).offset_ratio == 0
    assert QLearningConfig(rule="d2", offset_ratio=0.1).offset_ratio == 0.1
    with pytest.raises(ValueError, match="Use it with centered=True and discount=1"):
        QLearningConfig(rule="d2", offset_ratio=0.1, centered=False)


@pytest.mark.parametrize(
    ("agent", "setting", "meant"),
    [
        ("QLearning", "stepsize", "step_size"),
        ("QLearning", "epsilonn", "epsilon"),
        ("QLearning", "num_quantile", "num_quantiles"),
        ("TDLearning", "reward_rate", "reward_ratio"),
        ("ActorCritic", "tiling", "tilings"),
        ("TileQ", "bootstraps", "bootstrap"),
    ],
)
def test_unknown_setting_suggests_the_nearest(agent, setting, meant):
    config = getattr(perstep, agent).Config
    with pytest.raises(UnknownName, match=rf"no {agent} setting '{setting}'\. Did you mean '{meant}'\?") as caught:
        config.of({setting: 1})
    assert all(field.name in str(caught.value) for field in dataclasses.fields(config))


def test_a_setting_of_another_agent_is_unknown():
    with pytest.raises(UnknownName, match="no TDLearning setting 'epsilon'"):
        perstep.TDLearning("perstep/TwoLoop-v0", np.zeros(9, int), epsilon=0.1)
    with pytest.raises(UnknownName, match="no QLearning setting 'tilings'"):
        perstep.QLearning("perstep/TwoLoop-v0", tilings=8)


def test_unknown_names_without_a_neighbour():
    assert str(unknown("thing", "zzz", ["b", "a"])) == "There is no thing 'zzz'. Known: a, b."
    assert issubclass(UnknownName, ValueError)


# --- Tiles


@pytest.mark.parametrize("value", [0, -1, 1.5, "32", None, True])
def test_tilings(value):
    assert "whole number of at least 1" in refused(ActorCriticConfig, "tilings", value)


@pytest.mark.parametrize("value", [0, -1, 8.0, "8", None, True, (8, 0), (8, 1.5), [8, "a"], np.array([8.0, 8.0])])
def test_tiles(value):
    with pytest.raises(ValueError, match="tiles must be a whole number of at least 1"):
        ActorCriticConfig(tiles=value)


@pytest.mark.parametrize("name", ["wrap", "low", "high"])
@pytest.mark.parametrize("value", [3, 0.5, "ab", {1: 2}, True])
def test_sequences(name, value):
    assert "must be a sequence of numbers" in refused(ActorCriticConfig, name, value)


def test_members_of_sequences():
    with pytest.raises(ValueError, match="wrap must be a whole number of at least 0, got -1"):
        ActorCriticConfig(wrap=(0, -1))
    with pytest.raises(ValueError, match=r"wrap must be a whole number of at least 0, got 0\.5"):
        ActorCriticConfig(wrap=[0.5])
    for bounds in ((0.0, math.inf), (0.0, "a"), (0.0, None), [math.nan]):
        with pytest.raises(ValueError, match="A bound in low or high must be a finite number"):
            ActorCriticConfig(low=bounds)


@pytest.mark.parametrize("value", [0, -5, 100.5, "100", True])
def test_table_size(value):
    assert "whole number of at least 1" in refused(ActorCriticConfig, "table_size", value)


@pytest.mark.parametrize("value", ["no", None, 1, 0])
def test_divide_by_tilings(value):
    assert "True or False" in refused(ActorCriticConfig, "divide_by_tilings", value)


def test_divided_steps():
    # α = 0.4 over 8 tilings is 0.05; α_π = η_π α follows it; α_θ = η α with the undivided α, 0.1 · 0.4: θ has no tiles.
    config = ActorCriticConfig(step_size=0.4, tilings=8, reward_ratio=0.1, divide_by_tilings=True)
    assert config.value_decay == perstep.Decay(0.05, 0.0)
    assert config.schedule().theta_scale == pytest.approx(0.04)
    assert ActorCriticConfig(step_size=0.4, tilings=8).value_decay == perstep.Decay(0.4, 0.0)
    # The step of TileQ is divided unless told otherwise.
    assert TileQConfig(step_size=0.4, tilings=8).value_decay == perstep.Decay(0.05, 0.0)


# --- What the settings mean


def test_sizes():
    # m and n by rule: differential and rvi 1 and 1, d2 and categorical m and 1, d3 m and n; one of the two alone overrides.
    sizes = {
        rule: (LearnerConfig(rule=rule, num_quantiles=7).theta_size, LearnerConfig(rule=rule).value_size)
        for rule in RULES
    }
    assert sizes == {"differential": (1, 1), "d2": (7, 1), "d3": (7, 51), "rvi": (1, 1), "categorical": (7, 1)}
    apart = LearnerConfig(rule="d3", num_quantiles=7, num_reward_quantiles=3, num_return_quantiles=5)
    assert (apart.theta_size, apart.value_size) == (3, 5)


def test_steps_of_theta():
    # α_θ = η α, falling as α does …
    config = LearnerConfig(step_size=perstep.Decay(0.5, 0.8), reward_ratio=3)
    assert config.schedule()[2:4] == (1.5, 0.8)
    # … unless it has a schedule of its own.
    config = LearnerConfig(step_size=perstep.Decay(0.5, 0.8), reward_step_size=perstep.Decay(0.2, 0.6))
    assert config.schedule()[2:4] == (0.2, 0.6)
    config = LearnerConfig(step_size=perstep.Decay(0.5, 0.8), reward_step_size=0.1)
    assert config.schedule()[2:4] == (0.1, 0.0)


def test_configs_are_frozen_and_take_keywords_only():
    config = QLearningConfig()
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.epsilon = 0.2
    with pytest.raises(TypeError):
        QLearningConfig("d2")


# --- Numbers of other kinds


def test_numbers_of_numpy_are_numbers():
    config = QLearningConfig(
        step_size=np.float32(0.5),
        epsilon=np.float64(0.25),
        num_quantiles=np.int32(7),
        seed=np.uint8(3),
        reward_ratio=np.int64(2),
    )
    assert config == QLearningConfig(step_size=0.5, epsilon=0.25, num_quantiles=7, seed=3, reward_ratio=2.0)
    plain = {name: type(value) for name, value in config.settings().items()}
    assert (plain["step_size"], plain["epsilon"], plain["reward_ratio"]) == (float, float, float)
    assert (plain["num_quantiles"], plain["seed"]) == (int, int)
    assert QLearningConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_whole_numbers_compile_nothing_anew():
    # epsilon=0 and epsilon=0.0 are the same to a kernel; were they not, the first would wait for the compiler again.
    perstep.QLearning("perstep/TwoLoop-v0", step_size=0.5, offset_ratio=0.5, epsilon=0.5).learn(10)
    known = len(finite_worlds.loops(tabular.Q, rules.D2)[0].signatures)
    perstep.QLearning(
        "perstep/TwoLoop-v0", step_size=1, offset_ratio=1, epsilon=0, reward_ratio=1, initial_value=1
    ).learn(10)
    perstep.QLearning(
        "perstep/TwoLoop-v0", step_size=perstep.Decay(1, 1), reward_step_size=1, epsilon=np.int64(1)
    ).learn(10)
    assert len(finite_worlds.loops(tabular.Q, rules.D2)[0].signatures) == known
    pendulum = "perstep/InvertedPendulum-v0"
    perstep.ActorCritic(pendulum).learn(10)
    known = len(motion_worlds.loops(linear.ACTOR_CRITIC).learn_in_motion.signatures)
    perstep.ActorCritic(pendulum, step_size=1, policy_ratio=0, huber=1).learn(10)
    perstep.ActorCritic(pendulum, tilings=1, tiles=3, low=(-4, -7), high=(4, 7)).learn(10)
    perstep.ActorCritic("MountainCar-v0", reset_cost=1, discount=1).learn(10)  # nor do other worlds and learners
    perstep.TileQ(pendulum, epsilon=0, bootstrap="sampled").learn(10)
    assert len(motion_worlds.loops(linear.ACTOR_CRITIC).learn_in_motion.signatures) == known


def test_arrays_may_give_the_tiles():
    config = ActorCriticConfig(
        low=np.array([-1.2, -0.07], np.float32), high=np.array([0.6, 0.07]), tiles=np.array([4, 5]), wrap=np.array([0])
    )
    assert (config.high, config.tiles, config.wrap) == ((0.6, 0.07), (4, 5), (0,))
    assert config.low == pytest.approx((-1.2, -0.07))
    assert ActorCriticConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
    hash(config)


# --- Through files


@pytest.mark.parametrize(
    "config",
    [
        TDLearningConfig(),
        QLearningConfig(rule="d3", step_size=0.1, epsilon=0.3, num_reward_quantiles=3, seed=2**70, termination="mask"),
        QLearningConfig(step_size=perstep.Decay(0.5, 0.8), reward_step_size=perstep.Decay(0.2, 0.6), offset_ratio=0.1),
        QLearningConfig(step_size=0.1 + 0.2, initial_value=-1 / 3, reset_cost=5e-324),
        ActorCriticConfig(),
        ActorCriticConfig(tiles=(4, 5), wrap=(0,), low=(-1.0, -2.0), high=(1.0, 2.0), table_size=100),
        ActorCriticConfig(tiles=7, divide_by_tilings=True, huber=0, step_size=perstep.Decay(1.0)),
        QLearningConfig(rule="rvi", reference=(3, 1)),
        QLearningConfig(discount=0.9, centered=False),
        TileQConfig(bootstrap="expected", rule="d2", discount=0.5),
        TileQConfig(rule="rvi", reference=([0.5, -0.1], 2)),
    ],
)  # fmt: skip
def test_json_and_back(config):
    text = json.dumps(config.to_json(), allow_nan=False)
    assert type(config).from_json(json.loads(text)) == config


def test_json_is_plain():
    values = ActorCriticConfig(step_size=perstep.Decay(0.5, 0.8), tiles=(4, 5)).to_json()
    assert values["step_size"] == {"scale": 0.5, "power": 0.8, "delay": 1.0}
    names = [field.name for field in dataclasses.fields(ActorCriticConfig)]
    assert list(values) == names


def test_lists_become_tuples():
    config = ActorCriticConfig(tiles=[4, 5], wrap=[1], low=[0, 0], high=[1, 1])
    assert (config.tiles, config.wrap, config.low, config.high) == ((4, 5), (1,), (0, 0), (1, 1))


def test_json_with_an_unknown_setting():
    with pytest.raises(UnknownName, match="no QLearning setting 'evil'"):
        QLearningConfig.from_json({**QLearningConfig().to_json(), "evil": 1})


# --- Where people look


@pytest.mark.parametrize(
    ("agent", "first"),
    [("QLearning", ["env"]), ("TDLearning", ["env", "policy"]), ("ActorCritic", ["env"]), ("TileQ", ["env"])],
)
def test_signatures_list_the_settings(agent, first):
    kind = getattr(perstep, agent)
    parameters = inspect.signature(kind).parameters
    fields = dataclasses.fields(kind.Config)
    assert list(parameters) == [*first, *(field.name for field in fields)]
    for field in fields:
        assert parameters[field.name].default == presets.defaults(kind.Config, "steady").get(
            field.name, "steady" if field.name == "preset" else field.default
        )
        assert parameters[field.name].kind is inspect.Parameter.KEYWORD_ONLY


@pytest.mark.parametrize("config", [LearnerConfig, TileConfig, *CONFIGS, DeepQConfig])
def test_every_setting_has_a_line_of_documentation(config):
    source = inspect.getsource(config)
    own = [
        field.name for field in dataclasses.fields(config) if re.search(rf"^    {field.name}:", source, re.MULTILINE)
    ]
    for name in own:
        assert re.search(rf'^    {name}: .*\n    """\S', source, re.MULTILINE), name


def test_algorithms_name_a_rule_and_a_learner():
    assert ALGORITHMS["planner"].rule == ""  # it counts, and learns by no rule
    for name, cell in ALGORITHMS.items():
        if not cell.rule:
            continue
        assert cell.name == name
        assert cell.rule in RULES
        assert name.startswith(cell.rule + "-") or cell in CORNERS
        assert issubclass(cell.config, LearnerConfig)
        assert cell.config(rule=cell.rule, **cell.settings).rule == cell.rule
    assert {"differential-td", "d2-td", "d3-td", "differential-q", "d2-q", "d3-q"} <= set(ALGORITHMS)
    assert {"differential-actor-critic", "d2-actor-critic", "d3-actor-critic"} <= set(ALGORITHMS)


def test_unknown_algorithm():
    with pytest.raises(UnknownName, match=r"There is no algorithm 'd2q'\. Did you mean 'd2-q'\?"):
        algorithm("d2q")
    with pytest.raises(UnknownName, match=r"Did you mean 'sarsa'\? Similar names: sarsa"):
        perstep.make_agent("sarsa!", "perstep/TwoLoop-v0")


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("compile", 1, "compile must be True or False, got 1"),
        ("compile", "no", "compile must be True or False, got 'no'"),
        ("stacked_frames", 4, "stacked_frames must be True, False or None, got 4"),
        ("device", None, "device must be a name such as 'auto', 'cpu' or 'cuda', got None"),
        ("hidden", 3.5, "hidden must be a size or a sequence of sizes, such as (64, 64), got 3.5"),
        ("hidden", None, "hidden must be a size or a sequence of sizes, such as (64, 64), got None"),
        ("hidden", "64", "hidden must be a size or a sequence of sizes, such as (64, 64), got '64'"),
        ("hidden", (8, 0), "A size in hidden must be a whole number of at least 1, got 0"),
        ("hidden", True, "A size in hidden must be a whole number of at least 1, got True"),
    ],
)
def test_impossible_settings_of_deep_q(setting, value, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        DeepQConfig(**{setting: value})


def test_hidden_layers_in_any_form():
    for hidden in (np.int64(5), 5, [5], (5,), np.array([5])):
        assert DeepQConfig(hidden=hidden).hidden == (5,)


@pytest.mark.parametrize("config", [*CONFIGS])
def test_a_default_is_the_one_that_its_class_shows(config):
    """Of two bases, the one that is named first decides: its defaults must not be overwritten by fields that the other inherits."""
    made = config()
    for field in dataclasses.fields(config):
        assert getattr(made, field.name) == getattr(config, field.name), field.name
