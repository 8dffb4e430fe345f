"""Networks: agent steps per second on Atari Breakout against Stable-Baselines3, raw updates, MinAtar, memory of a full replay.

All in one run and in turns: batch 32, one update every 4 steps, replay warm, ε .05, all cores. Stable-Baselines3 runs in its
own Atari wrappers, as its users run it, where OpenCV is installed (pip install opencv-python-headless), and in the same
environment as ours.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

import gymnasium
import torch
from measuring import console, in_turns, seconds, table
from sb3_contrib import QRDQN
from stable_baselines3 import DQN

import perstep
from perstep.gym.opening import make

GAME = "ALE/Breakout-v5"
RULES = ("differential", "d2", "d3")
THEIRS = {
    "learning_starts": 100,
    "batch_size": 32,
    "train_freq": 4,
    "exploration_fraction": 1e-6,
    "exploration_final_eps": 0.05,
}
OURS = {
    "learning_starts": 100,
    "batch_size": 32,
    "update_every": 4,
    "epsilon_steps": 0,
    "epsilon": 0.05,
    "step_size": 1e-4,
}
FLOAT32, FASTEST = 1.5, 2.0  # times as fast as theirs: the goals

MEMORY = """
import sys
from deep import filled
from perstep.system.memory import peak_memory
filled(sys.argv[1], int(sys.argv[2]))
print(peak_memory())
"""


def peer(kind: str, env: object, buffer_size: int = 10_000) -> DQN | QRDQN:
    common = {"learning_rate": 1e-4, "buffer_size": buffer_size, "device": "cpu", **THEIRS}
    if kind == "DQN":
        return DQN("CnnPolicy", env, **common)
    return QRDQN("CnnPolicy", env, policy_kwargs={"n_quantiles": 51}, **common)


def in_their_wrappers() -> object:
    """Their environment for Atari, stacked as they stack it; the game itself as ours."""
    import ale_py
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import VecFrameStack

    gymnasium.register_envs(ale_py)
    return VecFrameStack(
        make_atari_env(GAME, n_envs=1, env_kwargs={"frameskip": 1, "repeat_action_probability": 0.25}), 4
    )


def ours(rule: str, env: str = GAME, **settings: object) -> perstep.DeepQ:
    return perstep.DeepQ(env, rule=rule, **{"replay_capacity": 10_000, "device": "cpu", **OURS, **settings})


def native_bfloat16() -> bool:
    return bool(torch.cpu._is_avx512_bf16_supported())


def contestant(name: str) -> DQN | QRDQN | perstep.DeepQ:
    """Whose name says what it is: a rule, perhaps with bfloat16, or a peer and whose wrappers."""
    who, _, how = name.partition(", ")
    if who in RULES:
        return ours(who, precision=how or "float32")
    return peer(who, in_their_wrappers() if how == "its wrappers" else make(GAME))


class Contest:
    """Every contestant in a process of its own, so that none gains by what another sets up; one learns while the others wait."""

    def __init__(self, names: Sequence[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self.processes, self.pipes = {}, {}
        for name in names:
            self.pipes[name], theirs = context.Pipe()
            self.processes[name] = context.Process(target=compete, args=(name, theirs), daemon=True)
            self.processes[name].start()
            self.pipes[name].recv()  # it is warm

    def seconds(self, name: str, task: str, steps: int) -> float:
        self.pipes[name].send((task, steps))
        return float(self.pipes[name].recv())

    def fastest(self, names: Sequence[str], task: str, steps: int, tries: int) -> dict[str, float]:
        """Steps per second at best, over several rounds in which each has its turn."""
        rounds = [{name: self.seconds(name, task, steps) for name in names} for _ in range(tries)]
        return {name: steps / min(times[name] for times in rounds) for name in names}

    def close(self) -> None:
        for process in self.processes.values():
            process.terminate()


def compete(name: str, pipe: Connection) -> None:
    agent = contestant(name)
    learner(agent, 200)()
    pipe.send("ready")
    while True:
        task, steps = pipe.recv()
        work = learner(agent, steps) if task == "learn" else updater(agent, steps)
        pipe.send(seconds(work))


def updater(agent: DQN | QRDQN | perstep.DeepQ, steps: int) -> Callable[[], object]:
    """Updates alone, from one batch."""
    assert isinstance(agent, perstep.DeepQ)
    batch = agent._replay.sample(agent._generator)

    def work() -> None:
        with agent._network.learning():
            for _ in range(steps):
                agent._network.update(batch, agent._rewards)

    return work


def speed(quick: bool) -> None:
    steps, tries = (40, 5) if quick else (80, 12)
    wrappers = ["its wrappers", "our wrapper"] if importlib.util.find_spec("cv2") is not None else ["our wrapper"]
    names = [f"{kind}, {wrapper}" for wrapper in wrappers for kind in ("DQN", "QRDQN")] + list(RULES)
    if native_bfloat16():
        names += [f"{rule}, bfloat16" for rule in RULES]
    contest = Contest(names)
    rates = contest.fastest(names, "learn", steps, tries)
    rows = []
    for name, rate in rates.items():
        own = name.partition(", ")[0] in RULES
        rival = "QRDQN" if name.startswith("d3") else "DQN"
        ratios = [f"{rate / rates[f'{rival}, {wrapper}']:.2f}×" if own else "" for wrapper in wrappers]
        goal = FASTEST if "bfloat16" in name else FLOAT32
        rows.append((name, f"{rate:.0f}", *ratios, f"≥ {goal}×" if own else ""))
    table(
        f"{GAME}, agent steps per second, {torch.get_num_threads()} threads",
        ("", "steps/s", *(f"to SB3, {wrapper}" for wrapper in wrappers), "goal"),
        rows,
    )
    if not native_bfloat16():
        console.print("bfloat16: skipped, this processor has none of its own and would imitate it, many times slower.")
    console.print(f"d2 to differential: {rates['d2'] / rates['differential']:.2f}")
    alone = contest.fastest(RULES, "update", steps // 4, tries)
    contest.close()
    rows = [
        (rule, f"{alone[rule]:.1f}", f"{rates[rule] / 4:.1f}", f"{rates[rule] / 4 / alone[rule]:.0%}") for rule in RULES
    ]
    table("Updates per second", ("rule", "alone", "in the loop, with acting and playing", "share"), rows)


def learner(agent: DQN | QRDQN | perstep.DeepQ, steps: int) -> Callable[[], object]:
    if isinstance(agent, perstep.DeepQ):
        return lambda: agent.learn(steps, progress=False)
    return lambda: agent.learn(steps, reset_num_timesteps=False)


def minatar(quick: bool) -> None:
    steps = 400 if quick else 2000
    agents = [ours(rule, "perstep/MinAtar-Breakout-v0") for rule in RULES]
    for agent in agents:
        agent.learn(200)
    fastest = in_turns([learner(agent, steps) for agent in agents], 5)
    rows = [(rule, f"{steps / time:,.0f}") for rule, time in zip(RULES, fastest, strict=True)]
    table("MinAtar Breakout, agent steps per second", ("rule", "steps/s"), rows)


def filled(name: str, capacity: int) -> object:
    """An agent with a full replay of random steps; learning is put off."""
    never = capacity + 1
    if name in RULES:
        agent = ours(name, replay_capacity=capacity, learning_starts=capacity, epsilon=1.0, initial_epsilon=1.0)
        return agent.learn(capacity - 4).learn(40)
    with warnings.catch_warnings():  # it says that its replay may not fit
        warnings.simplefilter("ignore")
        model = peer(name, make(GAME), capacity)
    model.learning_starts = never
    model.learn(capacity)
    model.learning_starts = 0
    return model.learn(40, reset_num_timesteps=False)


def memory(quick: bool) -> None:
    capacity = 5_000 if quick else 100_000
    sizes = {}
    for name in ("DQN", "d2", "d3"):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["benchmarks", *sys.path])}
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, name, str(capacity)],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        sizes[name] = int(done.stdout.split()[-1])
    rows = [(name, f"{size / 1e9:.2f} GB", f"1/{sizes['DQN'] / size:.1f}") for name, size in sizes.items()]
    table(f"Peak memory with a full replay of {capacity:,}", ("", "memory", "to SB3"), rows)


def main(*, quick: bool = False) -> None:
    speed(quick)
    minatar(quick)
    memory(quick)


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
