"""The numbers of a run, from the agent's record: its status at one step, and the metrics of all steps as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from perstep.agent.agent import Agent
from perstep.agent.earned import learnt_columns, sentences
from perstep.agent.tracking import learning
from perstep.app.run_view import RunStatus
from perstep.distributions.history import EPISODES, PENDING, RETURNS, REWARDS, mean_return
from perstep.files.storage import write_table

if TYPE_CHECKING:
    import polars


def run_status(agent: Agent) -> RunStatus:
    """The status of an agent now; returns are those of episodes in the last twentieth of its steps."""
    episode_return, episodes = last_episodes(agent, max(1, len(agent.history) // 20))
    return RunStatus(
        agent.steps,
        agent.average_reward,
        agent._life.reward_distribution,
        agent.learned_distribution if agent.steps and agent._learns_distribution else None,
        episode_return,
        episodes,
        sentences=tuple(sentences(agent)),
        findings=tuple(map(str, agent.check())),
        learnt=learnt_columns(agent),
        **learning(agent),
    )


def last_episodes(agent: Agent, rows: int) -> tuple[float, int]:
    """Mean return and number of the episodes in the last rows of the record, or in the last row that has an episode."""
    record = agent.history.record
    filled = len(agent.history)
    ended = np.append(record.episodes[:filled], record.pending[EPISODES])
    returns = np.append(record.returns[:filled], record.pending[RETURNS])
    if not ended.any():
        return float("nan"), 0
    begin = min(len(ended) - 1 - rows, int(np.flatnonzero(ended)[-1]))
    recent = slice(max(begin, 0), None)
    return float(returns[recent].sum() / ended[recent].sum()), int(ended[recent].sum())


def metrics_frame(agent: Agent) -> polars.DataFrame:
    """One row for each window: step, window, reward_rate, average_reward, theta_1 …, episodes, episode_return.

    The last window may be shorter. The rows come from the agent's record, so they depend only on the number of steps.
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
    """Publish the current metrics."""
    write_table(path, metrics_frame(agent))
