"""The baselines beside what others published: Wan et al. (2021), Sutton & Barto (2018), and sb3-contrib's QR-DQN on MinAtar.

The table part takes a minute. The games take an hour and are run by `python benchmarks/baselines.py games`.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np
from measuring import table

import perstep
from perstep.environments import access_control, two_loop

RUNS = 30
STEP_SIZES = (0.0125, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8)
RATIOS = (0.125, 0.25, 0.5, 1.0, 2.0)


def main(*, quick: bool) -> None:
    runs = 5 if quick else RUNS
    loops, queue, wan = two_loop(), access_control(), "(Wan et al. 2021)"
    rows = [
        ("two-loop, 10k", "Differential Q", *best(loops, 10_000, runs, differential_settings()), f"0.380 {wan}"),
        ("access control, 80k", "Differential Q", *best(queue, 80_000, runs, differential_settings()), "above RVI"),
        ("access control, 80k", "RVI Q", *best(queue, 80_000, runs, rvi_settings()), f"2.568 {wan}"),
    ]
    table(
        f"Reward per step over the whole run, ε = 0.1, best of the grid, {runs} runs ± 95 %",
        ("world, steps", "algorithm", "earned", "setting", "published"),
        rows,
    )
    sarsa(quick=quick)


def differential_settings() -> list[dict]:
    return [
        {"rule": "differential", "step_size": alpha, "reward_ratio": eta}
        for alpha, eta in itertools.product(STEP_SIZES, RATIOS)
    ]


def rvi_settings() -> list[dict]:
    """References as Wan et al. tried them: single pairs. Ours beside them: the mean and the maximum."""
    pairs = ((0, 0), (0, 1), (43, 0), (43, 1), (20, 1))
    return [
        {"rule": "rvi", "step_size": alpha, "reference": reference}
        for alpha, reference in itertools.product(STEP_SIZES, ("mean", "max", *pairs))
    ]


def best(mdp: perstep.FiniteMDP, steps: int, runs: int, grid: list[dict]) -> tuple[str, str]:
    """What the best setting of a grid earns over all steps, and the setting."""
    found = []
    for settings in grid:
        agents = [perstep.QLearning(mdp, epsilon=0.1, seed=seed, **settings) for seed in range(runs)]
        for agent in agents:
            agent.may_diverge = True
            agent.record_every(steps // 100)
        perstep.learn_together(agents, steps, progress=False)
        earned = np.array([agent.history.reward_rate.mean() for agent in agents])
        found.append((earned.mean(), 1.96 * earned.std(ddof=1) / np.sqrt(runs), settings))
    mean, error, settings = max(found, key=lambda row: row[0])
    words = ", ".join(f"{name} {value}" for name, value in settings.items() if name != "rule")
    return f"{mean:.4f} ± {error:.4f}", words


def sarsa(*, quick: bool) -> None:
    """Sutton & Barto, Example 10.2: differential Sarsa with α = β = 0.01, ε = 0.1, 2M steps; R̄ at the end was about 2.31."""
    rows = []
    for order in ("accept-first", "free-first"):
        mdp = access_control(order=order)
        agents = [
            perstep.make_agent("differential-sarsa", mdp, step_size=0.01, reward_ratio=1.0, epsilon=0.1, seed=seed)
            for seed in range(4 if quick else RUNS)
        ]
        for agent in agents:
            agent.record_every(2000, rows=1002)
        perstep.learn_together(agents, 2_000_000, progress=False)
        average = np.array([agent.history.average_reward[-500:] for agent in agents])  # (runs, looks), the last half
        rate = np.array([agent.history.reward_rate[-500:] for agent in agents])
        soft = mdp.evaluate(mdp.solve().policy, epsilon=0.1).average_reward
        low, high = np.quantile(average, (0.05, 0.95))
        rows.append(
            (order, f"{average.mean():.3f}", f"{low:.2f} to {high:.2f}", f"{rate.mean():.3f}", f"{soft:.3f}", "2.31")
        )
    table(
        "Access control by differential Sarsa as in Sutton & Barto (α = β = 0.01): R̄ over the second million steps",
        ("order", "mean R̄", "90 % of looks", "earned", "best policy, ε = 0.1", "published"),
        rows,
    )


# ------------------------------------------------------------------------------------------------------------------- games

GAMES = ("Breakout", "Freeway")
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


def ours(game: str, seed: int) -> tuple[float, float]:
    """Late return per game and reward per step of our `qr-dqn`."""
    agent = perstep.make_agent(
        "qr-dqn", f"perstep/MinAtar-{game}-v0", step_size=ALPHA, discount=GAMMA, batch_size=BATCH, update_every=UPDATE_EVERY,
        target_step_size=POLYAK, epsilon=EPSILON, initial_epsilon=1.0, epsilon_steps=EPSILON_STEPS, replay_capacity=100_000,
        learning_starts=100, huber=1.0, reward_ratio=1.0, seed=seed, threads=1,
    )  # fmt: skip
    agent.record_every(1000, rows=302).learn(STEPS)
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

    class Rewards(gymnasium.Wrapper):
        def __init__(self, env: gymnasium.Env) -> None:
            super().__init__(env)
            self.rewards, self.returns, self.sum = [], [], 0.0

        def step(self, action: int) -> tuple:
            observation, reward, terminated, truncated, info = self.env.step(action)
            self.rewards.append(float(reward))
            self.sum += float(reward)
            if terminated or truncated:
                self.returns.append((len(self.rewards), self.sum))
                self.sum = 0.0
            return observation.astype(np.float32), reward, terminated, truncated, info

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


def games(out: Path, seeds: int = 3) -> None:
    """Every run as one line of JSON in `out`; runs that are there are not made again."""
    done = {tuple(json.loads(line)[:3]) for line in out.read_text().splitlines()} if out.exists() else set()
    for seed, (who, play), game in itertools.product(range(seeds), (("ours", ours), ("theirs", theirs)), GAMES):
        if (who, game, seed) in done:
            continue
        begin = time.monotonic()
        late, rate = play(game, seed)
        with out.open("a") as file:
            file.write(json.dumps([who, game, seed, late, rate, time.monotonic() - begin]) + "\n")
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    cells = []
    for game, who in itertools.product(GAMES, ("ours", "theirs")):
        found = np.array([row[3:5] for row in rows if row[:2] == [who, game]])
        words = ", ".join(f"{value:.2f}" for value in found[:, 0])
        cells.append((game, who, f"{found[:, 0].mean():.2f}", words, f"{found[:, 1].mean():.4f}"))
    table(
        f"MinAtar, {STEPS:,} steps, discounted quantile Q-learning: return per game and reward per step in the last {LATE:,} steps",
        ("game", "who", "late return", "seed by seed", "reward per step"),
        cells,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["games"]:
        games(Path(sys.argv[2] if len(sys.argv) > 2 else "baselines_games.jsonl"))
    else:
        main(quick="--quick" in sys.argv)
