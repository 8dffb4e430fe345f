"""The five MinAtar games: our defaults with either objective and d3 as printed, beside QR-DQN of ours and of sb3-contrib.

python benchmarks/games.py run [--players d3 qr-dqn] [--games Breakout] [--seeds 3]   # resumes: no run is made twice
python benchmarks/games.py table

All have the same network, replay of 100,000 transitions, and one update in 8 steps with batches of 32.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from control import Recorder
from measuring import table

import perstep

GAMES = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
STEPS, UPDATE_EVERY, BATCH, POLYAK, EPSILON, EPSILON_STEPS, ALPHA, GAMMA = (
    300_000,
    8,
    32,
    0.005,
    0.05,
    25_000,
    1e-3,
    0.99,
)
LATE = STEPS // 10
RESULTS = Path(__file__).parent / "results" / "games.jsonl"

SAME: dict[str, Any] = {"batch_size": BATCH, "update_every": UPDATE_EVERY, "replay_capacity": 100_000, "threads": 1}
AS_PRINTED: dict[str, Any] = {
    "preset": "paper", "step_size": ALPHA, "target_step_size": POLYAK, "epsilon": EPSILON, "initial_epsilon": 1.0,
    "epsilon_steps": EPSILON_STEPS, "learning_starts": 100, "huber": 1.0, "reward_ratio": 1.0,
}  # fmt: skip
PLAYERS: dict[str, dict[str, Any]] = {
    "d3": {"algorithm": "d3-deep-q"},
    "d3, return per episode": {"algorithm": "d3-deep-q", "objective": "return per episode"},
    "d3, printed": {"algorithm": "d3-deep-q", **AS_PRINTED},
    "qr-dqn": {"algorithm": "qr-dqn", "discount": GAMMA, "termination": "mask", **AS_PRINTED},
    "sb3-contrib": {},
}


def ours(player: str, game: str, seed: int) -> tuple[float, float]:
    """Late return per game and reward per step of one of our agents."""
    settings = dict(PLAYERS[player])
    agent = perstep.make_agent(settings.pop("algorithm"), f"perstep/MinAtar-{game}-v0", seed=seed, **SAME, **settings)
    agent.record_every(1000, rows=302).learn(STEPS, progress=False)
    history = agent.history
    windows = LATE // 1000
    episodes = history.episodes[-windows:]
    returns = np.nansum(history.episode_return[-windows:] * episodes) / episodes.sum()
    return float(returns), float(history.reward_rate[-windows:].mean())


def theirs(game: str, seed: int) -> tuple[float, float]:
    """The same of sb3-contrib's QR-DQN with the same network, replay and updates."""
    import gymnasium
    import torch
    from sb3_contrib import QRDQN
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    torch.set_num_threads(1)

    class MinAtarBody(BaseFeaturesExtractor):
        def __init__(self, space: gymnasium.Space) -> None:
            super().__init__(space, 128)
            height, width, channels = space.shape
            left = (height - 2) * (width - 2)
            self.layers = torch.nn.Sequential(
                torch.nn.Conv2d(channels, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(16 * left, 128),
                torch.nn.ReLU(),
            )  # fmt: skip

        def forward(self, observations: torch.Tensor) -> torch.Tensor:
            return self.layers(observations.permute(0, 3, 1, 2))

    class Rewards(Recorder):
        def step(self, action: int) -> tuple:
            observation, *rest = super().step(action)
            return observation.astype(np.float32), *rest

        def reset(self, **keywords: object) -> tuple:
            observation, info = self.env.reset(**keywords)
            return observation.astype(np.float32), info

    env = Rewards(gymnasium.make(f"perstep/MinAtar-{game}-v0"))
    env.observation_space = gymnasium.spaces.Box(0.0, 1.0, env.env.observation_space.shape, np.float32)
    model = QRDQN(
        "MlpPolicy", env, learning_rate=ALPHA, buffer_size=100_000, learning_starts=100, batch_size=BATCH, tau=POLYAK,
        gamma=GAMMA, train_freq=UPDATE_EVERY, gradient_steps=1, target_update_interval=1,
        exploration_fraction=EPSILON_STEPS / STEPS, exploration_final_eps=EPSILON, seed=seed, device="cpu",
        policy_kwargs={"features_extractor_class": MinAtarBody, "net_arch": [], "n_quantiles": 51, "normalize_images": False},
    )  # fmt: skip
    model.learn(STEPS)
    late = [value for moment, value in env.returns if moment > STEPS - LATE]
    return float(np.mean(late)), float(np.mean(env.rewards[-LATE:]))


def run(players: list[str], games: list[str], seeds: int) -> None:
    """Every run as one line of JSON; runs that are there are not made again."""
    for seed, game, player in itertools.product(range(seeds), games, players):
        if any(row[:3] == [player, game, seed] for row in read()):
            continue
        begin = time.monotonic()
        late, rate = theirs(game, seed) if player == "sb3-contrib" else ours(player, game, seed)
        with RESULTS.open("a") as file:
            file.write(json.dumps([player, game, seed, late, rate, time.monotonic() - begin]) + "\n")


def read() -> list[list[Any]]:
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def show() -> None:
    cells = []
    for game, player in itertools.product(GAMES, PLAYERS):
        found = np.array([row[3:5] for row in sorted(read()) if row[:2] == [player, game]])
        if found.size:
            words = ", ".join(f"{value:.2f}" for value in found[:, 0])
            cells.append((game, player, f"{found[:, 0].mean():.2f}", words, f"{found[:, 1].mean():.4f}"))
    table(
        f"MinAtar, {STEPS:,} steps: return per game and reward per step in the last {LATE:,} steps, with exploration",
        ("game", "who", "late return", "seed by seed", "reward per step"),
        cells,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--players", nargs="+", choices=tuple(PLAYERS), default=list(PLAYERS))
    parser.add_argument("--games", nargs="+", choices=GAMES, default=list(GAMES))
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.command == "run":
        run(arguments.players, arguments.games, arguments.seeds)
    show()


if __name__ == "__main__":
    main()
