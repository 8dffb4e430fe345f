"""Many agents that learn in parallel threads: compiled loops on all cores, with the same results for any number of threads."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TypeVar

from perstep.agent.agent import Agent
from perstep.display.progress import Bar
from perstep.inputs.checks import count
from perstep.system.processors import usable_cores

AgentType = TypeVar("AgentType", bound=Agent)


def learn_together(
    agents: Iterable[AgentType], num_steps: int, *, threads: int | None = None, progress: bool | None = None
) -> list[AgentType]:
    """Let every agent learn for `num_steps` steps, in parallel; returns the agents in the given order.

    Each agent has its own generator and estimates, and the compiled loop holds no lock. So the number of threads changes only
    the time that it takes. If one agent fails, or at Ctrl-C, the others stop within a moment. Each is then consistent, and has
    made its own number of steps.
    """
    learners = _distinct(agents)
    count("num_steps", num_steps, 0)
    threads = count("threads", usable_cores() if threads is None else threads, 1)
    stop = threading.Event()
    total = len(learners)
    with ThreadPoolExecutor(threads) as pool, Bar(total * num_steps, f"{total} runs", show=progress) as bar:
        running = [
            pool.submit(agent.learn, num_steps, progress=False, callback=lambda _: not stop.is_set())
            for agent in learners
        ]
        try:
            for done, future in enumerate(as_completed(running), 1):
                future.result()
                bar.update(done * num_steps, f"{done}/{total} runs done")
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return learners


def _distinct(agents: Iterable[AgentType]) -> list[AgentType]:
    """The agents as a list. Two agents that share memory or a world cannot learn at the same time."""
    learners = list(agents) if isinstance(agents, Iterable) else [agents]
    if not isinstance(agents, Iterable) or not all(isinstance(agent, Agent) for agent in learners):
        raise TypeError(f"learn_together expects a list of agents, got {agents!r}.")
    if len({id(agent) for agent in learners}) < len(learners):
        raise ValueError("The list contains the same agent twice. Make one agent for each run, each with its own seed.")
    worlds = [id(agent._world.env) for agent in learners if agent._world is not None]
    if len(set(worlds)) < len(worlds):
        raise ValueError(
            "Two agents share one Gymnasium environment. Give each agent its own environment, or the id of one."
        )
    return learners
