"""A script as a user writes it. `make check` runs a strict type checker on it, and a test runs it (tests/test_packaging.py)."""

import perstep


def report(agent: perstep.QLearning) -> dict[str, float]:
    rewards = agent.reward_distribution
    return {"mean": rewards.mean, "bad": rewards.cvar(0.1), "low": float(rewards.quantile(0.05))}


mdp = perstep.FiniteMDP(
    [[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]], [[[1.0, 0.0], [0.0, 0.0]], [[0.0, 2.0], [0.0, 0.0]]]
)
agent = perstep.QLearning(mdp, rule="d2", seed=0).learn(1_000, progress=False)
agent.save("agent.safetensors")
numbers: dict[str, float] = report(agent)
again: perstep.Agent = perstep.load("agent.safetensors")
forecast: perstep.Forecast = again.forecast(100)
low, high = forecast.interval(0.9)
evaluation: perstep.Evaluation = again.evaluate(1_000)
gain: float = mdp.solve().average_reward
