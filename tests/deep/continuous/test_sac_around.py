"""What surrounds an agent works with continuous actions as with numbered ones: risk, film, TensorBoard, sweeps, cards, worlds without an end."""

from __future__ import annotations

import gymnasium
import numpy as np
import polars as pl
import pytest

import perstep
from perstep.app import cli

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("one_thread")

SHORT = {"replay_capacity": 150, "learning_starts": 32, "batch_size": 8, "num_quantiles": 5, "hidden": (8,)}
FLAGS = [f"--{name.replace('_', '-')}={value[0] if isinstance(value, tuple) else value}" for name, value in SHORT.items()]


class Gamble(gymnasium.Env):
    """The action a from 0 to 1 earns a on average, and −4 a in one of ten steps: the mean wants 1, the worst tenth 0."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Box(0.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        share = float(action[0])
        lost = self.np_random.random() < 0.1
        return np.zeros(1, np.float32), -4.0 * share if lost else 1.5 * share, False, False, {}


def test_a_risk_level_avoids_what_the_mean_takes():
    settings = {"hidden": (16, 16), "batch_size": 32, "step_size": 5e-3, "seed": 0, "threads": 1}
    chosen = [
        float(perstep.SoftActorCritic(Gamble(), risk_level=level, **settings).learn(500).predict(np.zeros(1))[0][0])
        for level in (1.0, 0.1)
    ]
    assert chosen[0] > 0.8
    assert chosen[1] < 0.2


def test_trained_filmed_and_followed_from_the_command_line(tmp_path):
    out, world = tmp_path / "run", "perstep/ContinuousInvertedPendulum-v0"
    words = ["train", "d2-sac", world, "--steps", "80", "--out", str(out), "--tensorboard", "--film", *FLAGS]
    assert cli.main(words) == 0
    assert (out / "agent.safetensors").is_file()
    assert list(out.rglob("events.out.tfevents.*"))
    assert (out / "film.gif").stat().st_size > 1_000


def test_its_card_says_what_it_is(tmp_path):
    agent = perstep.SoftActorCritic("Pendulum-v1", **SHORT).learn(60)
    agent.save(tmp_path / "a.safetensors", card=True)
    text = (tmp_path / "a.safetensors.md").read_text(encoding="utf-8")
    assert "SoftActorCritic" in text
    assert "Pendulum-v1" in text


def test_a_sweep_over_its_settings(tmp_path):
    fixed = {name: list(value) if isinstance(value, tuple) else value for name, value in SHORT.items()}
    study = tmp_path / "small.yaml"
    study.write_text(
        "algorithm: rvi-sac\nworld: perstep/EnergyStorage-v0\ngrid: {step_size: [1e-3, 1e-4]}\n"
        f"fixed: {fixed}\nsteps: 60\nruns: 1\nwindow: 20\n",
        encoding="utf-8",
    )
    assert cli.main(["sweep", str(study), "--out", str(tmp_path / "results")]) == 0
    assert len(pl.concat([pl.read_parquet(path) for path in (tmp_path / "results").rglob("*.parquet")])) == 2


@pytest.mark.parametrize("world", ["Swimmer-v5", "Reacher-v5", "Pusher-v5", "HalfCheetah-v5"])
def test_robots_without_any_reset(world):
    pytest.importorskip("mujoco", reason="needs MuJoCo: pip install 'perstep[mujoco]'")
    env = perstep.gym.without_time_limit(gymnasium.make(world))
    agent = perstep.SoftActorCritic(env, **SHORT, threads=1)
    agent.learn(60)
    assert agent.ends == 0
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(1_100)]
    assert not any(terminated or truncated for terminated, truncated in ends)
