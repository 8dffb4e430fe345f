"""Our agents with their defaults beside Stable-Baselines3, on seven control tasks: what is earned while learning, and what the
trained policy earns.

python benchmarks/control.py run [--only sb3|ours] [--algorithm TileQ] [--world Puck] [--seeds 3]   # resumes: no run is made twice
python benchmarks/control.py table

The peers are DQN and PPO of Stable-Baselines3 and QR-DQN of sb3-contrib, each with the defaults of its library and with the
settings that rl-baselines3-zoo tuned for the world. Every peer learns from games with the standard time limit; continuing
worlds are cut into games of 1000 steps for them. All of them use one thread. Steps per second are those of the clock on the
wall, so they are smaller when other programs run. The late columns are of the policy with its exploration: for algorithms that
learn a random policy, such as PPO, they can be far better than what the most probable actions earn.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from measuring import table
from recent import world_named
from scores import quantile_errors

import perstep

AUTOSCALING = "perstep/Autoscaling-v0"
CONTINUING = (AUTOSCALING, "perstep/PuckWorld-v0", "perstep/PendulumSwingUp-v0", "Battery")
STEPS = {"CartPole-v1": 50_000, **dict.fromkeys(("MountainCar-v0", "Acrobot-v1", *CONTINUING), 100_000)}
GAME_STEPS = 1000  # length of a game of a continuing world, which has no games of its own
GAMES, FIRST_GAME = 20, 1_000_000  # evaluation games and the seed of the first one: the same games for every algorithm
RESULTS = Path(__file__).parent / "results" / "control.json"

# rl-baselines3-zoo, hyperparams/dqn.yml, qrdqn.yml and ppo.yml. "n_envs" and "normalize" are not settings of an algorithm.
# `linear` is the zoo's "lin_": from the value to 0 over the run. Its DQN and QR-DQN differ in the quantiles only.


def linear(start: float) -> Callable[[float], float]:
    return lambda remaining: start * remaining


_CARTPOLE_Q = {
    "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000, "gamma": 0.99,
    "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
    "exploration_final_eps": 0.04,
}  # fmt: skip
_MOUNTAIN_CAR_Q = {
    "learning_rate": 4e-3, "batch_size": 128, "buffer_size": 10_000, "learning_starts": 1000, "gamma": 0.98,
    "target_update_interval": 600, "train_freq": 16, "gradient_steps": 8, "exploration_fraction": 0.2,
    "exploration_final_eps": 0.07,
}  # fmt: skip
_ACROBOT_Q = {
    "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0, "gamma": 0.99,
    "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1, "exploration_fraction": 0.12,
    "exploration_final_eps": 0.1,
}  # fmt: skip
_WIDE = {"net_arch": [256, 256]}
ZOO: dict[str, dict[str, dict[str, Any]]] = {
    "DQN": {
        "CartPole-v1": {**_CARTPOLE_Q, "policy_kwargs": _WIDE},
        "MountainCar-v0": {**_MOUNTAIN_CAR_Q, "policy_kwargs": _WIDE},
        "Acrobot-v1": {**_ACROBOT_Q, "policy_kwargs": _WIDE},
    },
    "QR-DQN": {
        "CartPole-v1": {**_CARTPOLE_Q, "policy_kwargs": {**_WIDE, "n_quantiles": 10}},
        "MountainCar-v0": {**_MOUNTAIN_CAR_Q, "policy_kwargs": {**_WIDE, "n_quantiles": 25}},
        "Acrobot-v1": {**_ACROBOT_Q, "policy_kwargs": {**_WIDE, "n_quantiles": 25}},
    },
    "PPO": {
        "CartPole-v1": {
            "n_envs": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20,
            "ent_coef": 0.0, "learning_rate": linear(0.001), "clip_range": linear(0.2),
        },
        "MountainCar-v0": {
            "normalize": True, "n_envs": 16, "n_steps": 16, "gae_lambda": 0.98, "gamma": 0.99, "n_epochs": 4,
            "ent_coef": 0.0,
        },
        "Acrobot-v1": {
            "normalize": True, "n_envs": 16, "n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99, "n_epochs": 4,
            "ent_coef": 0.0,
        },
    },
}  # fmt: skip
for settings_of in ZOO.values():
    settings_of |= dict.fromkeys(CONTINUING, settings_of["CartPole-v1"])  # the zoo does not know our worlds

SB3_CELLS = tuple(itertools.product(("DQN", "PPO", "QR-DQN"), ("defaults", "zoo")))
OUR_AGENTS = itertools.product(("ActorCritic", "TileQ", "DeepQ"), ("d2", "d3"))
OUR_CELLS = tuple((f"{agent} {rule}", "defaults") for agent, rule in OUR_AGENTS)


# ------------------------------------------------------------------------------------------------------------- measuring


class Recorder(gymnasium.Wrapper):
    """Keeps every reward, and the return of each game with the step at which the game ended."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.rewards: list[float] = []
        self.returns: list[tuple[int, float]] = []
        self.sum = 0.0

    def step(self, action: Any) -> tuple:
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.rewards.append(float(reward))
        self.sum += float(reward)
        if terminated or truncated:
            self.returns.append((len(self.rewards), self.sum))
            self.sum = 0.0
        return observation, reward, terminated, truncated, info


def games_of(world: str) -> Recorder:
    """The world with its standard time limit; a continuing world with one of `GAME_STEPS`."""
    if world not in CONTINUING:
        return Recorder(gymnasium.make(world))
    made = world_named(world)
    env = gymnasium.make(made) if isinstance(made, str) else made
    return Recorder(gymnasium.wrappers.TimeLimit(env, GAME_STEPS))


def late(recorders: list[Recorder]) -> dict[str, Any]:
    """Reward per step and return per game over all of learning and over its last tenth; a return is None if no game ended."""
    rewards = np.array([recorder.rewards for recorder in recorders])  # (environments, steps)
    begin = rewards.shape[1] - rewards.shape[1] // 10
    returns = [value for recorder in recorders for moment, value in recorder.returns if moment > begin]
    all_returns = [value for recorder in recorders for _, value in recorder.returns]
    return {
        "steps": rewards.size,
        LIFE: float(rewards.mean()),
        "life_return": float(np.mean(all_returns)) if all_returns else None,
        "late_reward_per_step": float(rewards[:, begin:].mean()),
        "late_return": float(np.mean(returns)) if returns else None,
    }


def evaluate(world: str, act: Callable[[Any], Any]) -> dict[str, Any]:
    """Return per game and reward per step of a policy over the evaluation games. `act`: an observation to an action."""
    env = games_of(world)
    for game in range(GAMES):
        observation, _ = env.reset(seed=FIRST_GAME + game)
        ended = False
        while not ended:
            observation, _, terminated, truncated, _ = env.step(act(observation))
            ended = terminated or truncated
    returns = [value for _, value in env.returns]
    return {"return": float(np.mean(returns)), "reward_per_step": float(np.mean(env.rewards)), "returns": returns}


# ------------------------------------------------------------------------------------------------------------------ runs


def sb3(world: str, algorithm: str, settings: str, seed: int) -> dict[str, Any]:
    """One run of a peer. PPO learns from whole rollouts, so it makes up to 3 % more steps than were asked for."""
    import torch
    from sb3_contrib import QRDQN
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    torch.set_num_threads(1)
    chosen = dict(ZOO[algorithm][world]) if settings == "zoo" else {}
    recorders = [games_of(world) for _ in range(chosen.pop("n_envs", 1))]
    envs = DummyVecEnv([lambda recorder=recorder: recorder for recorder in recorders])
    # The zoo normalises observations and rewards. The recorders are inside and see the original rewards.
    normalised = VecNormalize(envs, gamma=chosen["gamma"]) if chosen.pop("normalize", False) else None
    learner = {"DQN": DQN, "PPO": PPO, "QR-DQN": QRDQN}[algorithm]
    model = learner("MlpPolicy", normalised or envs, seed=seed, device="cpu", **chosen)
    begin = time.monotonic()
    model.learn(STEPS[world])
    seconds = time.monotonic() - begin

    def act(observation: Any) -> Any:
        shown = normalised.normalize_obs(observation) if normalised else observation
        return model.predict(shown, deterministic=True)[0]

    return {**evaluate(world, act), **late(recorders), "seconds": seconds}


def ours(world: str, algorithm: str, settings: str, seed: int) -> dict[str, Any]:
    """One run of our agent with all defaults, in the world as it is: a continuing world is not cut into games."""
    name, rule = algorithm.split()
    settings_of_agent = {"threads": 1} if name == "DeepQ" else {}
    agent = getattr(perstep, name)(world_named(world), rule=rule, seed=seed, **settings_of_agent)
    agent.record_every(STEPS[world] // 100)
    begin = time.monotonic()
    agent.learn(STEPS[world], progress=False)
    seconds = time.monotonic() - begin
    believed = beliefs(agent)
    history = agent.history
    games, sums = history.episodes, np.nan_to_num(history.episode_return) * history.episodes
    return {
        **evaluate(world, lambda observation: agent.predict(observation, deterministic=True)[0]),
        "steps": STEPS[world],
        "late_reward_per_step": float(history.reward_rate[-10:].mean()),
        "late_return": float(sums[-10:].sum() / games[-10:].sum()) if games[-10:].any() else None,
        LIFE: float(history.reward_rate.mean()),
        "life_return": float(sums.sum() / games.sum()) if games.any() else None,
        "seconds": seconds,
        **believed,
    }


def beliefs(agent: Any) -> dict[str, float]:
    """How far R̄ is from what the agent earned lately, and its distribution from what it earns as it behaves now, in 100,000 steps
    without learning; as shares of the range of the rewards there. Quantiles as in the study of the defaults, with its band. The
    last number is the error of CVaR in standard errors of both, as the distributions give them."""
    learnt, now = agent.reward_distribution, agent.evaluate(100_000, seed=1).reward_distribution
    unit = float(np.ptp(now.means)) or 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", perstep.ThinTail)
        cvar_error = abs(learnt.cvar(0.01) - now.cvar(0.01))
        error = float(np.hypot(learnt.cvar_error(0.01), now.cvar_error(0.01)))
        return {
            "average_error": abs(agent.average_reward - agent.reward_distribution.mean) / unit,
            "quantile_error": float(quantile_errors(learnt, now).max()) / unit,
            "cvar_error": cvar_error / unit,
            "cvar_in_standard_errors": cvar_error / error if error else 0.0,
        }


PARTS = {"sb3": (sb3, SB3_CELLS), "ours": (ours, OUR_CELLS)}
KEY = ("world", "algorithm", "settings", "seed")
LIFE = "life_reward_per_step"  # runs made before it was kept are made again
BELIEFS = {"average_error": ".1%", "quantile_error": ".1%", "cvar_error": ".1%", "cvar_in_standard_errors": ".1f"}


def read() -> list[dict[str, Any]]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else []


def same_run(row: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(row[name] == other[name] for name in KEY)


def append(result: dict[str, Any]) -> None:
    """Put a run into the file, one line per run. The file is published by rename, so it is complete at all times."""
    lines = [json.dumps(row) for row in [*(row for row in read() if not same_run(row, result)), result]]
    RESULTS.parent.mkdir(exist_ok=True)
    unfinished = RESULTS.with_suffix(f".{os.getpid()}.unfinished")
    unfinished.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    unfinished.replace(RESULTS)


def run(parts: list[str], seeds: int, only: str, world_has: str) -> None:
    """All cells with seed 0, then all cells with seed 1, and so on. The slowest algorithm of the peers comes last."""
    for seed, part in itertools.product(range(seeds), parts):
        play, cells = PARTS[part]
        for (algorithm, settings), world in itertools.product(cells, STEPS):
            if not f"{algorithm}, {settings}".startswith(only) or world_has not in world:
                continue
            key = dict(zip(KEY, (world, algorithm, settings, seed), strict=True))
            if any(same_run(row, key) and LIFE in row for row in read()):
                continue
            result = play(**key)
            append({**key, **result})
            speed = result["steps"] / result["seconds"]
            print(f"{world} {algorithm} {settings} {seed}: {result['return']:.1f}, {speed:,.0f} steps/s", flush=True)


# ----------------------------------------------------------------------------------------------------------------- table


def estimate(values: list[float | None], digits: int) -> str:
    """Mean ± standard error over seeds; only the mean if there is one seed."""
    known = [value for value in values if value is not None]
    if not known:
        return "—"
    error = f" ± {np.std(known, ddof=1) / np.sqrt(len(known)):.{digits}f}" if len(known) > 1 else ""
    return f"{np.mean(known):.{digits}f}{error}"


def worst(rows: list[dict[str, Any]], name: str, form: str) -> str:
    """The largest error of the runs that have one."""
    errors = [row[name] for row in rows if name in row]
    return f"{max(errors):{form}}" if errors else "—"


def show() -> None:
    rows = read()
    shown = []
    for world, (algorithm, settings) in itertools.product(STEPS, (*SB3_CELLS, *OUR_CELLS)):
        found = [row for row in rows if [row[name] for name in KEY[:3]] == [world, algorithm, settings]]
        if not found:
            continue
        columns = {name: [row.get(name) for row in found] for row in found for name in row}
        shown.append(
            (
                world,
                f"{algorithm}, {settings}",
                len(found),
                estimate([row.get("life_return") for row in found], 1),
                estimate([row.get(LIFE) for row in found], 3),
                estimate(columns["return"], 1),
                estimate(columns["reward_per_step"], 3),
                estimate(columns["late_return"], 1),
                estimate(columns["late_reward_per_step"], 3),
                f"{sum(columns['steps']) / sum(columns['seconds']):,.0f}",
                *(worst(found, name, form) for name, form in BELIEFS.items()),
            )
        )
    table(
        f"Life: all steps of learning; late: their last tenth. The others: the trained policy over {GAMES} games without "
        "exploration. Mean ± standard error",
        (
            "world",
            "algorithm",
            "seeds",
            "life: return",
            "life: reward/step",
            "return",
            "reward/step",
            "late return",
            "late reward/step",
            "steps/s",
            "R̄ − earned",
            "quantiles",
            "cvar(0.01)",
            "in std. errors",
        ),
        shown,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run", help="make the runs that are not in the file yet")
    running.add_argument("--only", choices=tuple(PARTS), help="the runs of one side; both by default")
    running.add_argument("--seeds", type=int, default=3, help="runs of each cell, with the seeds 0, 1, …")
    running.add_argument(
        "--algorithm", default="", help="only algorithms whose names begin so, as 'TileQ' or 'DQN, zoo'"
    )
    running.add_argument("--world", default="", help="only worlds whose names have this in them")
    commands.add_parser("table", help="print the results so far")
    arguments = parser.parse_args()
    if arguments.command == "run":
        run([arguments.only] if arguments.only else list(PARTS), arguments.seeds, arguments.algorithm, arguments.world)
    show()


if __name__ == "__main__":
    main()
