"""The numbers of a run: those of the moment, and all of them as a table, from the record that the agent carries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from perstep.agents.agent import Agent
from perstep.live import Moment
from perstep.recording import EPISODES, PENDING, RETURNS, REWARDS, mean_return
from perstep.storage import published

if TYPE_CHECKING:
    import polars


def moment(agent: Agent) -> Moment:
    """What there is to see of an agent now: means over the last twentieth of its life."""
    history = agent.history
    rows = max(1, len(history) // 20)
    rate = float(np.mean(history.reward_rate[-rows:])) if len(history) else float("nan")
    window = history.window * min(rows, len(history))
    episode_return, episodes = last_episodes(agent, rows)
    return Moment(
        agent.steps,
        agent.average_reward,
        rate,
        window,
        agent.reward_quantiles,
        episode_return,
        episodes,
        **learning(agent),
    )


def last_episodes(agent: Agent, rows: int) -> tuple[float, int]:
    """Mean return and number of the episodes that ended in the last rows of the record, or in the last row that has any."""
    record = agent.history.record
    filled = len(agent.history)
    ended = np.append(record.episodes[:filled], record.pending[EPISODES])
    returns = np.append(record.returns[:filled], record.pending[RETURNS])
    if not ended.any():
        return float("nan"), 0
    begin = min(len(ended) - 1 - rows, int(np.flatnonzero(ended)[-1]))
    recent = slice(max(begin, 0), None)
    return float(returns[recent].sum() / ended[recent].sum()), int(ended[recent].sum())


def learning(agent: Agent) -> dict[str, float]:
    """The loss of the last minibatch and the exploration of an agent that has such."""
    found = {"loss": getattr(agent, "last_loss", None), "epsilon": getattr(agent, "epsilon", None)}
    return {name: value for name, value in found.items() if isinstance(value, float)}


def metrics_frame(agent: Agent) -> polars.DataFrame:
    """One row a window: step, window, reward_rate, average_reward, theta_1 …, episodes, episode_return; the last may be shorter.

    Taken from the record that the agent carries, so rows depend on nothing but the steps made.
    """
    import polars

    history = agent.history
    frame = history.frame()
    window = polars.Series("window", np.full(len(frame), history.window), polars.Int64)
    frame = frame.insert_column(1, window)
    if rest := int(history.record.cursor[PENDING]):
        theta = {f"theta_{i + 1}": [float(x)] for i, x in enumerate(agent.reward_quantiles)}
        pending = history.record.pending
        last = {
            "step": [agent.steps],
            "window": [rest],
            "reward_rate": [float(pending[REWARDS]) / rest],
            "average_reward": [agent.average_reward],
            "episodes": [int(pending[EPISODES])],
            "episode_return": mean_return(pending[RETURNS : RETURNS + 1], pending[EPISODES : EPISODES + 1]),
        }
        frame = frame.vstack(polars.DataFrame({**last, **theta}, schema=frame.schema))
    return frame


def write_metrics(agent: Agent, path: Path) -> None:
    """Publish the metrics as they are now."""
    with published(path) as draft:
        metrics_frame(agent).write_parquet(draft)
