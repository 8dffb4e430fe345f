"""Draws operations.png: the optimal policies of three worlds of operations. `python docs/worlds/operations.py`"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap

from perstep.environments import criss_cross, routing, tandem_queue

COLOURS = ListedColormap(["#0072B2", "#E69F00", "#BBBBBB"])


def main() -> None:
    """Solve the worlds and draw their actions."""
    figure, panels = plt.subplots(1, 4, figsize=(11, 3.1), layout="constrained")
    pictures = [
        ("routing", routing(20).solve().policy.reshape(21, 21), "slow queue", "fast queue", ["fast", "slow", "reject"]),
        ("tandem queue", 2 - tandem_queue(20).solve().policy.reshape(21, 21), "second queue", "first queue",
         ["fast", "slow", "pause"]),
    ]  # fmt: skip
    network = criss_cross(12).solve().policy.reshape(13, 13, 13)
    pictures += [
        (f"criss-cross, {third} in class 3", network[:, :, third], "class 2", "class 1", ["serve 1", "serve 2", "idle"])
        for third in (0, 3)
    ]
    for axes, (title, policy, x, y, names) in zip(panels, pictures, strict=True):
        axes.imshow(policy, origin="lower", cmap=COLOURS, vmin=0, vmax=2)
        axes.set(title=title, xlabel=x, ylabel=y)
        shown = [i for i in range(3) if (policy == i).any()]
        axes.legend(
            [plt.Rectangle((0, 0), 1, 1, color=COLOURS(i)) for i in shown], [names[i] for i in shown], fontsize=7, loc="upper right"
        )  # fmt: skip
    figure.savefig(Path(__file__).parent / "operations.png", dpi=110)


if __name__ == "__main__":
    main()
