"""What a file of lives says: a table of scores per moment and group of worlds, the lines that a Planner is judged by, and a figure.

python benchmarks/life/report.py FILE [--learner planner] [--figure FILE.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl
from peers import PEERS

from perstep.files.storage import published, read_table
from worlds import WORLDS

MOMENTS = (1_000, 10_000, 100_000, 1_000_000)
GROUPS = ("choose", "judge")
LOST, WON = 0.5, 0.8  # a world is lost where the learner is below the first and a peer at least at the second
SMALL_GOAL = 0.9  # at 1e5 steps in worlds with at most 100 pairs

Scores = dict[str, dict[str, float]]
"""World → agent → mean score over the seeds."""


def scores(rows: pl.DataFrame, group: str, steps: int) -> Scores:
    """The mean scores of a group of worlds ("all" for both) at one moment."""
    kept = rows.filter((pl.col("steps") == steps) & ((pl.col("group") == group) | (group == "all")))
    found: Scores = {}
    for world, agent, score in kept.group_by("world", "agent", maintain_order=True).agg(pl.mean("score")).iter_rows():
        found.setdefault(world, {})[agent] = score
    return {world: found[world] for world in WORLDS if world in found}


def number(score: float | None) -> str:
    """A score with two digits; "—" where there is none."""
    return "—" if score is None else f"{score:.2f}".replace("0.", ".", 1) if abs(score) < 1 else f"{score:.2f}"


def table(title: str, found: Scores, agents: list[str]) -> None:
    """Print the scores, and below them the means over the worlds in which all agents have one."""
    width = max(len(world) for world in found) + 2
    print(f"\n{title}\n{'':{width}}" + "".join(f"{agent:>{max(8, len(agent) + 2)}}" for agent in agents))
    for world, by_agent in found.items():
        cells = (f"{number(by_agent.get(agent)):>{max(8, len(agent) + 2)}}" for agent in agents)
        print(f"{world:{width}}" + "".join(cells))
    shared = [by_agent for by_agent in found.values() if all(agent in by_agent for agent in agents)]
    if shared:
        means = {agent: float(np.mean([by_agent[agent] for by_agent in shared])) for agent in agents}
        cells = (f"{number(means[agent]):>{max(8, len(agent) + 2)}}" for agent in agents)
        print(f"{f'mean of {len(shared)}':{width}}" + "".join(cells))


def verdict(rows: pl.DataFrame, learner: str, group: str, steps: int) -> None:
    """Print the lines that the learner is judged by at one moment."""
    found = {world: by for world, by in scores(rows, group, steps).items() if learner in by}
    if not found:
        return
    mine = {world: by[learner] for world, by in found.items()}
    print(f"\n{learner}, {group} worlds, {steps:,} steps ({len(found)} worlds)")
    print(f"  mean life score: {np.mean(list(mine.values())):.3f}")
    best = {
        world: max((by[peer], peer) for peer in PEERS if peer in by and peer != learner)
        for world, by in found.items()
        if any(peer in by and peer != learner for peer in PEERS)
    }
    if best:
        gaps = np.array([best[world][0] - mine[world] for world in best])
        print(
            f"  mean distance to the best peer of each world, chosen afterwards: {gaps.mean():+.3f} "
            f"({np.maximum(gaps, 0.0).mean():.3f} if worlds where it is ahead count 0)"
        )
        lost = [world for world in best if mine[world] < LOST and best[world][0] >= WON]
        words = [f"{world} ({number(mine[world])}; {best[world][1]} {number(best[world][0])})" for world in lost]
        print(f"  under {LOST} where a peer has {WON}: {', '.join(words) or 'nowhere'}")
    small = set(rows.filter(pl.col("small"))["world"].to_list())
    few = {world: score for world, score in mine.items() if world in small}
    if few:
        under = sum(score < SMALL_GOAL for score in few.values())
        words = [f"{world} {number(score)}" for world, score in sorted(few.items(), key=lambda item: item[1])]
        print(f"  at most 100 pairs: {under} of {len(few)} under {SMALL_GOAL}: {', '.join(words)}")


def figure(rows: pl.DataFrame, agents: list[str], path: Path) -> None:
    """Draw the score over the life, one panel for each world, the mean over the seeds."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    worlds = (
        rows.select("group", "world").unique(maintain_order=True).sort("group", maintain_order=True)["world"].to_list()
    )
    columns = min(5, len(worlds))
    lines = -(-len(worlds) // columns)
    drawn, axes = plt.subplots(
        lines, columns, figsize=(3.0 * columns, 2.2 * lines + 0.6), sharex=True, sharey=True, squeeze=False
    )
    colours = plt.get_cmap("tab10" if len(agents) <= 10 else "tab20")
    for ax, world in zip(axes.ravel(), worlds, strict=False):
        for i, agent in enumerate(agents):
            curve = (
                rows.filter((pl.col("world") == world) & (pl.col("agent") == agent))
                .group_by("steps")
                .agg(pl.mean("score"))
                .sort("steps")
            )
            ax.plot(
                curve["steps"], curve["score"], color=colours(i), label=agent, lw=1.8 if agent == "planner" else 1.0
            )
        ax.axhline(1.0, color="0.7", lw=0.6)
        ax.axhline(0.0, color="0.7", lw=0.6)
        ax.set(title=world, xscale="log", ylim=(-0.25, 1.1))
        ax.title.set_size(9)
    for ax in axes.ravel()[len(worlds) :]:
        ax.set_axis_off()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="lower center", ncols=min(len(agents), 6), frameon=False, fontsize=8)
    drawn.supylabel("life score (0 random, 1 optimum)", size=9)
    drawn.tight_layout(rect=(0.01, 0.6 / (2.2 * lines + 0.6), 1.0, 1.0))
    with published(path) as draft:
        drawn.savefig(draft, format="png", dpi=110)
    plt.close(drawn)
    print(f"\nfigure: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="what run.py wrote")
    parser.add_argument("--learner", default="planner", help="the agent that is judged")
    parser.add_argument("--figure", type=Path, help="beside the file by default")
    arguments = parser.parse_args()
    everything = read_table(arguments.file)
    rows = everything.filter(pl.col("error").is_null())
    known = set(rows["agent"].to_list())
    order = dict.fromkeys((arguments.learner, *sorted(known - set(PEERS)), *PEERS))
    agents = [name for name in order if name in known]
    for group in GROUPS:
        for steps in MOMENTS:
            if found := scores(rows, group, steps):
                seeds = rows.filter((pl.col("group") == group) & (pl.col("steps") == steps))["seed"].n_unique()
                table(f"{group}: life scores after {steps:,} steps, {seeds} seeds", found, agents)
    for steps in MOMENTS:
        for group in (*GROUPS, "all"):
            verdict(rows, arguments.learner, group, steps)
    for world, agent, seed, error in (
        everything.filter(pl.col("error").is_not_null()).select("world", "agent", "seed", "error").iter_rows()
    ):
        print(f"failed: {world}, {agent}, seed {seed}: {error}")
    figure(rows, agents, arguments.figure or arguments.file.with_suffix(".png"))


if __name__ == "__main__":
    main()
