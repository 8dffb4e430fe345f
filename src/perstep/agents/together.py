"""Many agents at once: compiled runs over all cores, with the same results whatever the number of threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from perstep.agents.agent import Agent
from perstep.config import count
from perstep.progress import Bar

AgentType = TypeVar("AgentType", bound=Agent)


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def learn_together(
    agents: Iterable[AgentType], num_steps: int, *, threads: int | None = None, progress: bool | None = None
) -> list[AgentType]:
    """Let every agent learn for `num_steps` steps, side by side; returns them in the order given.

    Each has its own generator and estimates and the compiled loop holds no lock, so threads only change how long it takes.
    When one fails, or at Ctrl-C, the others stop within a moment, each whole and at a step of its own.
    """
    crowd = _each_once(agents)
    count("num_steps", num_steps, 0)
    threads = count("threads", cores() if threads is None else threads, 1)
    stop = threading.Event()
    with ThreadPoolExecutor(threads) as pool, Bar(len(crowd) * num_steps, f"{len(crowd)} runs", show=progress) as bar:
        running = [
            pool.submit(agent.learn, num_steps, progress=False, callback=lambda _: not stop.is_set()) for agent in crowd
        ]
        try:
            for done, future in enumerate(as_completed(running), 1):
                future.result()
                bar.update(done * num_steps, f"{done}/{len(crowd)} runs done")
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return crowd


def _each_once(agents: Iterable[AgentType]) -> list[AgentType]:
    """The agents as a list; two that share memory or a world cannot learn at the same time."""
    crowd = list(agents) if isinstance(agents, Iterable) else [agents]
    if not isinstance(agents, Iterable) or not all(isinstance(agent, Agent) for agent in crowd):
        raise TypeError(f"learn_together takes a list of agents, but {agents!r} came.")
    if len({id(agent) for agent in crowd}) < len(crowd):
        raise ValueError("An agent is there twice. Make one for each run, with a seed of its own.")
    worlds = [id(agent._world.env) for agent in crowd if agent._world is not None]
    if len(set(worlds)) < len(worlds):
        raise ValueError(
            "Two agents share one Gymnasium environment. Give each its own, or the id, so that each makes one."
        )
    return crowd
