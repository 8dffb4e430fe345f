"""The Planner as people use it: its life, its answers, its files, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings

import gymnasium
import numpy as np
import polars as pl
import pytest
from gymnasium import spaces

import perstep
from perstep.agent.agent import Diverged
from perstep.agent.making import choose
from perstep.app import cli
from perstep.files.storage import BadFile
from perstep.worlds import (
    access_control,
    garnet,
    maintenance,
    red_pill_blue_pill,
    river_swim,
    two_loop,
)


class Ring(gymnasium.Env):
    """States in a ring; action 1 goes on, action 0 stays. State 0 pays `reward(clock)`."""

    def __init__(self, num_states=4, reward=lambda clock: 1.0, seen=lambda clock, state: state, actions=2):
        self.observation_space, self.action_space = spaces.Discrete(num_states), spaces.Discrete(actions)
        self.num_states, self.reward, self.seen = num_states, reward, seen
        self.clock = self.state = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return 0, {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"There is no action {action}.")
        self.clock += 1
        self.state = (self.state + int(action == 1)) % self.num_states
        reward = self.reward(self.clock) if self.state == 0 else 0.0
        return self.seen(self.clock, self.state), reward, False, False, {}


class Swapped(gymnasium.Env):
    """Two actions in one state; which of them pays 1 is swapped after 5,000 steps."""

    observation_space, action_space = spaces.Discrete(1), spaces.Discrete(2)

    def __init__(self):
        self.clock = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        self.clock += 1
        return 0, float(action == (self.clock > 5_000)), False, False, {}


def same(a, b):
    """Whether two planners are the same to the bit."""
    first, second = a._arrays(), b._arrays()
    assert first.keys() == second.keys()
    return (
        a.steps == b.steps
        and all(np.array_equal(first[name], second[name]) for name in first)
        and np.array_equal(a._generator, b._generator)
        and a.history.lifetime_reward == b.history.lifetime_reward
    )


# Life

WORLDS = {
    "finite": (access_control, {}),
    "noisy": (lambda: garnet(8, 2, 3, seed=0, reward_sd=1.0), {}),
    "gymnasium": (lambda: "FrozenLake-v1", {}),
    "changing": (access_control, {"preset": "changing"}),
    "changing gymnasium": (lambda: "FrozenLake-v1", {"memory": 50}),
    "risk": (red_pill_blue_pill, {"risk_level": 0.5}),
}


def planner(name, **settings):
    make, given = WORLDS[name]
    return perstep.Planner(make(), **given, **settings)


@pytest.mark.parametrize("name", WORLDS)
def test_a_life_is_the_same_however_it_is_cut(name, tmp_path):
    total = 200 if name == "risk" else 1_000  # the exact solver of a risk takes long
    whole = planner(name, seed=3).learn(total)
    assert same(planner(name, seed=3).learn(total), whole)
    assert not same(planner(name, seed=4).learn(total), whole)
    assert same(planner(name, seed=3).learn(total // 2).learn(total // 2), whole)
    watched = planner(name, seed=3).learn(total, callback=lambda agent: repr(agent) != "", snapshot_at=[1, 7, 150])
    assert same(watched, whole)
    resumed, path = planner(name, seed=3), tmp_path / "agent.safetensors"
    for steps in (0, 1, total // 2 - 1, total // 2):  # also before any step
        resumed.learn(steps).save(path)
        resumed = perstep.load(path)
    assert same(resumed, whole)


def test_taxi_resumes_to_the_bit(tmp_path):
    whole, path = perstep.Planner("Taxi-v4").learn(120), tmp_path / "agent.safetensors"
    perstep.Planner("Taxi-v4").save(path)
    perstep.load(path).learn(60).save(path)
    assert same(perstep.load(path).learn(60), whole)


def test_planners_do_not_disturb_each_other():
    alone = [planner("noisy", seed=seed).learn(600) for seed in (0, 1)]
    pair = [planner("noisy", seed=seed) for seed in (0, 1)]
    for _ in range(6):
        for one in pair:
            one.learn(100)
    together = [planner("noisy", seed=seed) for seed in (0, 1)]
    perstep.learn_together(together, 600)
    assert all(map(same, pair, alone))
    assert all(map(same, together, alone))


# What it learns


@pytest.mark.parametrize("make", [access_control, lambda: river_swim(6), maintenance])
def test_it_earns_while_it_learns_and_ends_optimal(make):
    mdp = make()
    best = mdp.solve().average_reward
    random = mdp.evaluate(np.full((mdp.num_states, mdp.num_actions), 1.0 / mdp.num_actions)).average_reward
    agent = perstep.Planner(mdp, seed=1).learn(100_000)
    learnt = mdp.evaluate(agent.policy(deterministic=True), start=mdp.initial).average_reward
    assert learnt == pytest.approx(best, abs=1e-3 * (best - random))
    assert (agent.history.lifetime_reward - random) / (best - random) >= 0.9
    low, high = agent.average_reward_interval()
    assert low <= agent.average_reward <= high
    assert high - low < 0.2 * (best - random)


def test_intervals_and_forecasts_keep_their_promise():
    inside = held = 0
    for seed in range(30):
        mdp = garnet(6, 2, 3, seed=seed, reward_sd=1.0)
        agent = perstep.Planner(mdp, seed=seed).learn(3_000)
        low, high = agent.average_reward_interval(0.9)
        inside += low <= mdp.evaluate(agent.policy(deterministic=True)).average_reward <= high
        low, high = agent.forecast(500).interval(0.9)
        held += low <= 500 * agent.evaluate(500, deterministic=True, seed=seed).average_reward <= high
    assert 0.75 <= inside / 30 <= 1.0
    assert 0.75 <= held / 30 <= 1.0


def test_the_interval_narrows():
    agent, widths = perstep.Planner(access_control()), []
    for steps in (500, 20_000):
        low, high = agent.learn(steps).average_reward_interval()
        widths.append(high - low)
    assert widths[1] < 0.3 * widths[0]


def test_careful_planners_take_the_red_pill():
    mdp = red_pill_blue_pill()
    expected = mdp.solve(risk_level=0.1)
    agent = perstep.Planner(mdp, risk_level=0.1).learn(10_000)
    assert agent.policy(deterministic=True).argmax(axis=1).tolist() == expected.policy.tolist()
    assert agent.risk_adjusted_reward == pytest.approx(expected.cvar, abs=0.02)


def test_the_preset_for_a_changing_world_follows_it():
    agent = perstep.Planner(Swapped(), memory=500, preset="changing").learn(5_000)
    assert agent.policy(deterministic=True).tolist() == [[1.0, 0.0]]
    agent.learn(5_000)
    assert agent.policy(deterministic=True).tolist() == [[0.0, 1.0]]
    assert agent.history.lifetime_reward > 0.8


# What it knows


def test_the_world_as_learnt_holds_frequencies():
    mdp = garnet(4, 2, 3, seed=0)
    agent = perstep.Planner(mdp).learn(2_000)
    counts = agent._learnt[0]
    for pair in range(8):
        state, action = divmod(pair, 2)
        expected, entry = np.zeros(4), counts.newest[pair]
        while entry != -1:
            expected[counts.follower[entry]] += counts.seen[entry] / counts.visits[pair]
            entry = counts.older[entry]
        learnt = agent.mdp.outcomes
        found = np.bincount(learnt.next_state[state, action], learnt.probability[state, action], 4)
        if counts.visits[pair]:
            np.testing.assert_allclose(found, expected, atol=1e-12)
            mean = learnt.probability[state, action] @ learnt.mean[state, action]
            assert mean == pytest.approx(counts.paid[pair], abs=1e-12)


def test_names_stay_and_unvisited_actions_are_not_allowed():
    stages = ["low", "middle", "high"]
    mdp = perstep.FiniteMDP.from_function(
        "low",
        ["stay", "climb"],
        lambda stage, action: (
            [(1.0, stages[min(stages.index(stage) + (action == "climb"), 2)], 1.0)]
            if stage != "high"
            else [(1.0, "low", 5.0)]
        ),
    )
    agent = perstep.Planner(mdp).learn(50)
    assert list(agent.mdp.states) == list(mdp.states)
    assert list(agent.mdp.actions) == ["stay", "climb"]
    assert agent.predict("low") == agent.predict(0)
    frame = agent.frame()
    assert frame["name"].to_list() == [str(mdp.states[state]) for state in frame["state"]]
    one = perstep.Planner(two_loop()).learn(1)
    allowed = np.ones((9, 2), bool) if one.mdp.allowed is None else one.mdp.allowed
    visited = one.visits > 0
    assert (allowed[visited.any(axis=1)] == visited[visited.any(axis=1)]).all()
    assert not allowed.all()
    assert np.isnan(one.all_action_values[~visited]).all()


def test_the_exact_side_works_on_the_world_as_learnt():
    agent = perstep.Planner(access_control()).learn(3_000)
    mdp = agent.mdp
    assert mdp.solve().average_reward == pytest.approx(agent.average_reward, abs=1e-6)
    found = mdp.evaluate(agent.policy(deterministic=True), start=mdp.initial)
    assert found.average_reward == pytest.approx(agent.average_reward, abs=1e-6)
    assert found.forecast(1_000).mean == pytest.approx(1_000 * agent.average_reward, rel=0.05)
    assert len(perstep.Planner(red_pill_blue_pill()).learn(50).mdp.frontier().risk_levels) > 0
    assert agent.learned_distribution.mean == pytest.approx(agent.average_reward, abs=1e-9)
    assert "as learnt in 3,000 steps" in repr(agent.learned_distribution)
    assert repr(agent.reward_distribution).startswith("Distribution(counted over the last ")


@pytest.mark.parametrize("steps", [1, 2, 20, 2_000])
@pytest.mark.parametrize("name", ["finite", "noisy", "gymnasium", "risk"])
def test_every_answer_has_words_early_and_late(name, steps, tmp_path):
    agent = planner(name).learn(steps)
    assert "Planner(earned " in repr(agent)
    assert "Planner" in agent.card()
    assert str(agent.forecast(10))
    assert str(agent.forecast(1_000))
    assert str(agent.history)
    assert np.isfinite([agent.average_reward, agent.risk_adjusted_reward, *agent.average_reward_interval()]).all()
    assert agent.frame().height >= 1
    agent.export(tmp_path / "table.parquet")
    assert pl.read_parquet(tmp_path / "table.parquet").height == agent.frame().height
    np.testing.assert_allclose(agent.policy().sum(axis=1), 1.0)
    assert agent.evaluate(20).num_steps == 20


def test_a_world_whose_rewards_are_not_counted():
    agent = planner("finite").record_every(5, sketch=False).learn(2_000)
    assert np.isfinite(agent.average_reward)
    assert agent.check() is not None
    assert "not counted" in agent.card()


@pytest.mark.parametrize("name", ["finite", "gymnasium", "risk"])
def test_before_the_first_step(name):
    agent = planner(name)
    assert np.isnan(agent.average_reward)
    assert np.isnan(agent.risk_adjusted_reward)
    assert agent.check() == []
    assert "nothing learnt" in repr(agent)
    assert "Nothing yet" in agent.card()
    np.testing.assert_allclose(agent.policy().sum(axis=1), 1.0)
    assert agent.predict(0)[1] is None
    assert agent.evaluate(10).num_steps == 10
    answers = [
        lambda: agent.mdp, lambda: agent.forecast(10), agent.frame, agent.average_reward_interval,
        lambda: agent.action_values(0), lambda: agent.all_action_values, lambda: agent.reward_distribution,
        lambda: agent.learned_distribution,
    ]  # fmt: skip
    for answer in answers:
        with pytest.raises(ValueError, match=r"Call learn first\."):
            answer()


def test_a_forecast_from_where_it_never_was():
    with pytest.raises(ValueError, match="Nothing is known of what the policy does from 3 on"):
        perstep.Planner(two_loop()).learn(1).forecast(10, 3)


# Which learner


class Seen(gymnasium.Env):
    """A world of two spaces."""

    def __init__(self, observations, actions=None):
        self.observation_space = observations
        self.action_space = spaces.Discrete(2) if actions is None else actions


BOX = spaces.Box(-1.0, 1.0, (2,))


@pytest.mark.parametrize(
    ("world", "name", "reason"),
    [
        (two_loop(), "planner", "a finite MDP with 9 states"),
        ("FrozenLake-v1", "planner", "16 states and 4 actions"),
        (Seen(spaces.MultiDiscrete([3, 4])), "planner", "12 states and 2 actions"),
        (Seen(BOX), "d2-actor-critic", "2 bounded numbers, which tiles cover"),
        (Seen(BOX, BOX), "d2-sac", "actions are vectors in Box"),
        (Seen(spaces.Discrete(10**9)), "d2-deep-q", "needs a network"),
        (Seen(spaces.Box(-1.0, 1.0, (20,))), "d2-deep-q", "needs a network"),
        (Seen(spaces.Box(0, 255, (8, 8, 3), np.uint8)), "d2-deep-q", "needs a network"),
        ("CartPole-v1", "d2-deep-q", "needs a network"),
    ],
)
def test_the_learner_is_chosen_by_the_spaces(world, name, reason):
    chosen, why = choose(world)
    assert chosen == name
    assert reason in why
    assert why.endswith(".")


def test_a_space_of_actions_without_a_learner_is_refused():
    with pytest.raises(TypeError, match=r"no learner for actions in Text.*TransformAction"):
        perstep.make_agent("auto", Seen(BOX, spaces.Text(3)))


def test_auto_makes_the_agent_and_says_why(capsys):
    agent = perstep.make_agent("auto", two_loop(), seed=3)
    assert isinstance(agent, perstep.Planner)
    assert agent.config.seed == 3
    assert "perstep: planner: the world is a finite MDP with 9 states" in capsys.readouterr().err


@pytest.mark.usefixtures("undrawn")
def test_auto_on_the_command_line(tmp_path, capsys):
    out = tmp_path / "run"
    assert cli.main(["train", "auto", "perstep/TwoLoop-v0", "--steps", "300", "--out", str(out), "--quiet"]) == 0
    assert "perstep: planner: the world is a finite MDP" in capsys.readouterr().err
    assert isinstance(perstep.load(out / "agent.safetensors"), perstep.Planner)
    assert cli.main(["train", "auto", "--steps", "300"]) != 0
    assert "expects the id of a world next" in capsys.readouterr().err


# What it refuses


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"memory": 0.5}, "memory must be a finite number 1 or more, got 0.5"),
        ({"memory": "long"}, "memory must be a finite number 1 or more, got 'long'"),
        ({"rule": "d2"}, "no Planner setting 'rule': it is a setting of"),
        ({"epsilon": 0.1}, "no Planner setting 'epsilon': it is a setting of"),
        ({"risk_level": 0.0}, "risk_level must be"),
    ],
)
def test_settings_that_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        perstep.Planner(two_loop(), **settings)


def test_worlds_that_are_refused():
    with pytest.raises(MemoryError, match="counts of 2,000,000,000 pairs"):
        perstep.Planner(Ring(10**9))
    with pytest.raises(TypeError, match=r"Planner keeps a row for every state.*TileQ"):
        perstep.Planner("CartPole-v1")


@pytest.mark.parametrize(
    ("world", "sentence"),
    [
        (lambda: Ring(seen=lambda clock, state: 7 if clock == 40 else state), "Expected a point of the Discrete space"),
        (
            lambda: Ring(seen=lambda clock, state: -1 if clock == 40 else state),
            "Expected a point of the Discrete space",
        ),
        (lambda: Ring(reward=lambda clock: np.nan if clock > 40 else 1.0), "must be one finite number, got nan"),
        (lambda: Ring(reward=lambda clock: -np.inf if clock > 40 else 1.0), "must be one finite number, got -inf"),
    ],
)
def test_a_bad_step_leaves_the_planner_as_it_was(world, sentence):
    agent = perstep.Planner(world())
    with pytest.raises(ValueError, match=sentence):
        agent.learn(500)
    counts, experience, _, _ = agent._learnt
    assert 30 < agent.steps < 500
    assert counts.visits.sum() == agent.steps == counts.seen.sum() == counts.weight.sum()
    assert np.isfinite(counts.paid).all()
    assert experience.numbers[0] <= 4
    assert np.isfinite(agent.average_reward)


def test_an_action_that_vanishes():
    world = Ring(actions=3)
    agent = perstep.Planner(world).learn(100)
    world.action_space = spaces.Discrete(1)
    with pytest.raises(ValueError, match=r"There is no action [12]"):
        agent.learn(1_000)
    assert agent._learnt[0].visits.sum() == agent.steps


@pytest.mark.parametrize("reward", [1e308, -1e308, 1e160])
def test_rewards_without_bound(reward):
    agent = perstep.Planner(Ring(reward=lambda clock: reward if clock % 2 else -reward))
    with pytest.raises(Diverged, match=r"NaN or infinite.*with smaller rewards\.") as error:
        agent.learn(1_000)
    assert "step_size" not in str(error.value)


def test_large_rewards_are_learnt():
    agent = perstep.Planner(Ring(2, reward=lambda clock: 1e100)).learn(2_000)
    assert agent.average_reward == pytest.approx(1e100, rel=1e-6)


# Files that mean harm

MUTANTS = textwrap.dedent(
    """
    import faulthandler, random, sys, time, warnings
    from pathlib import Path
    import numpy as np
    faulthandler.enable()
    warnings.simplefilter("ignore")
    import perstep
    from perstep.files import storage

    folder = Path(sys.argv[1])
    rng = random.Random(0)
    NASTY = {"f": (0.0, np.nan, np.inf, -1.0, 1e308, 5e-324), "i": (0, 1, -1, -2, 5, 10**9, -(2**31))}

    def mutated(array):
        kind = rng.randrange(5)
        if kind == 0:
            return array.astype(rng.choice((np.float32, np.int64, np.int32, np.bool_)))
        if kind == 1:
            return array[: rng.randrange(array.size + 1)]
        if kind == 2:
            return np.resize(array, rng.choice((0, 1, 3, 500)))
        changed = array.copy()
        for _ in range(rng.choice((1, 3, changed.size))):
            if changed.size:
                changed[rng.randrange(changed.size)] = rng.choice(NASTY["f" if changed.dtype.kind == "f" else "i"])
        return changed

    said = {}
    for sample in sorted(folder.glob("*.safetensors")):
        arrays, metadata = storage.read(sample)
        cases = [
            {name: mutated(arrays[name])}
            for name in sorted(arrays)
            if name.split(".")[0] in ("counts", "experience", "plan", "place", "aimed_at")
            for _ in range(int(sys.argv[2]))
        ]
        for name in ("counts.older", "counts.next_atom"):  # circles: each to itself, two to each other, all in turn
            size = arrays[name].size
            cases += [{name: order.astype(np.int32)} for order in (
                np.arange(size), np.arange(size) ^ 1, (np.arange(size) + 1) % size, np.zeros(size))]
        cases.append({name: arrays[name][:0] for name in arrays if name.startswith("counts.")})
        cases.append({"counts.size": arrays["counts.size"] + 1})
        cases.append({"counts.newest": np.zeros_like(arrays["counts.newest"])})
        for change in cases:
            path = folder / "mutant"
            storage.write(path, {**arrays, **change}, metadata)
            label = f"{sample.name} {list(change)[:1]}"
            print(label, file=sys.stderr, flush=True)
            try:
                agent = perstep.load(path)
            except storage.BadFile:
                said["refused"] = said.get("refused", 0) + 1
                continue
            try:
                agent.learn(1_000)
                assert np.isfinite(agent.average_reward), label
                said["learnt"] = said.get("learnt", 0) + 1
            except ArithmeticError as error:  # numbers that are too large: a sentence
                assert "NaN or infinite" in str(error), (label, error)
                said["a sentence"] = said.get("a sentence", 0) + 1
    print(said)
    """
)


def test_mutated_files_are_refused_or_go_on(tmp_path):
    perstep.Planner(two_loop()).learn(60).save(tmp_path / "finite.safetensors")
    planner("changing gymnasium").learn(60).save(tmp_path / "changing.safetensors")
    done = subprocess.run(
        [sys.executable, "-c", MUTANTS, str(tmp_path), "3"], capture_output=True, text=True, timeout=250, check=False
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    assert "refused" in done.stdout
    assert "learnt" in done.stdout


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", -1),
        ("steps", "many"),
        ("config", {}),
        ("config", {"memory": -1}),
        ("world", {}),
        ("agent", "QLearning"),
    ],
)
def test_mutated_metadata_is_refused(name, value, tmp_path):
    from perstep.files import storage

    path = tmp_path / "agent.safetensors"
    perstep.Planner("FrozenLake-v1").learn(30).save(path)
    arrays, metadata = storage.read(path)
    storage.write(path, arrays, {**metadata, name: value})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name == "config" and value == {}:  # the defaults
            assert perstep.load(path).learn(100).steps == 130
            return
        with pytest.raises(BadFile):
            perstep.load(path)
