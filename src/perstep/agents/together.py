"""Many agents at once: compiled runs over all cores, with the same results whatever the number of threads."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from perstep.agents.agent import Agent
from perstep.config import count
from perstep.progress import Bar

AgentType = TypeVar("AgentType", bound=Agent)


def learn_together(
    agents: Iterable[AgentType], num_steps: int, *, threads: int | None = None, progress: bool | None = None
) -> list[AgentType]:
    """Let every agent learn for `num_steps` steps, side by side; returns them in the order given.

    Each has its own generator and estimates and the compiled loop holds no lock, so threads only change how long it takes.
    """
    crowd = list(agents)
    threads = count("threads", threads if threads is not None else len(os.sched_getaffinity(0)), 1)
    with ThreadPoolExecutor(threads) as pool, Bar(len(crowd) * num_steps, f"{len(crowd)} runs", show=progress) as bar:
        running = [pool.submit(agent.learn, num_steps, progress=False) for agent in crowd]
        try:
            for done, future in enumerate(as_completed(running), 1):
                future.result()
                bar.update(done * num_steps, f"{done}/{len(crowd)} runs done")
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return crowd
