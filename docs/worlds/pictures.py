"""Draws the pictures of these pages, all or those named: `python docs/worlds/pictures.py [operations chains classic-control …]`"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.ticker import MaxNLocator

import perstep
from perstep import worlds

BLUE, ORANGE, GREEN, GREY, DARK = "#0072B2", "#E69F00", "#009E73", "#BBBBBB", "#2C5278"
ACTIONS = ListedColormap([BLUE, ORANGE, GREY])


def heat_map(axes: Any, title: str, policy: Any, x: str, y: str, names: list[str]) -> None:
    """At most three actions over two coordinates of the state."""
    axes.imshow(policy, origin="lower", cmap=ACTIONS, vmin=0, vmax=2, aspect="auto")
    axes.set(title=title, xlabel=x, ylabel=y)
    shown = [i for i in range(len(names)) if (policy == i).any()]
    axes.legend(
        [plt.Rectangle((0, 0), 1, 1, color=ACTIONS(i)) for i in shown],
        [names[i] for i in shown],
        fontsize=7,
        loc="upper right",
    )


def actions_by_value(axes: Any, title: str, mdp: Any, x: str, names: list[str], labels: Any = None) -> None:
    """The value of each state under the optimal policy, above the lowest, in the colour of its action."""
    best = mdp.solve()
    values = best.action_values.max(axis=1)
    for i, name in enumerate(names):
        chosen = best.policy == i
        if chosen.any():
            height = (values - values.min())[chosen] + 0.015 * np.ptp(values)  # the lowest state shows its colour too
            axes.bar(np.flatnonzero(chosen), height, color=ACTIONS(i), label=name)
    axes.set(title=title, xlabel=x, ylabel="value")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if labels:
        axes.set_xticks(range(len(labels)), labels)
    axes.legend(fontsize=7)


def operations(figure: Any) -> None:
    """Optimal actions in queues with two or three counts."""
    panels = figure.subplots(1, 4)
    heat_map(panels[0], "routing", worlds.routing(20).solve().policy.reshape(21, 21), "slow queue", "fast queue",
             ["fast", "slow", "reject"])  # fmt: skip
    tandem = 2 - worlds.tandem_queue(20).solve().policy.reshape(21, 21)
    heat_map(panels[1], "tandem queue", tandem, "second queue", "first queue", ["fast", "slow", "pause"])
    network = worlds.criss_cross(12).solve().policy.reshape(13, 13, 13)
    for axes, third in zip(panels[2:], (0, 3), strict=True):
        heat_map(axes, f"criss-cross, {third} in class 3", network[:, :, third], "class 2", "class 1",
                 ["serve 1", "serve 2", "idle"])  # fmt: skip


def chains(figure: Any) -> None:
    """Optimal actions and values where the state is one number."""
    panels = figure.subplots(2, 4).ravel()
    actions_by_value(panels[0], "RiverSwim", worlds.river_swim(), "place", ["down", "up"])
    actions_by_value(panels[1], "long chain", worlds.long_chain(), "place", ["back", "forward"])
    actions_by_value(panels[2], "six arms", worlds.six_arms(), "arm (0: hall)", [f"action {a}" for a in range(6)])
    actions_by_value(
        panels[3],
        "recycling robot",
        worlds.recycling_robot(),
        "battery",
        ["search", "wait", "recharge"],
        ["low", "high"],
    )
    actions_by_value(
        panels[4], "admission control", worlds.admission_control(), "customers in the queue", ["admit", "reject"]
    )
    actions_by_value(
        panels[5], "service queue", worlds.service_queue(), "customers in the queue", ["slow", "middle", "fast"]
    )
    actions_by_value(
        panels[6], "maintenance", worlds.maintenance(), "condition (9: broken)", ["run", "repair", "replace"]
    )
    panels[7].axis("off")


def stock(figure: Any) -> None:
    """Optimal orders, and the game of Catch."""
    panels = figure.subplots(1, 4)
    best = worlds.inventory().solve().policy
    panels[0].bar(range(best.size), best, color=BLUE)
    panels[0].set(title="inventory", xlabel="units in stock", ylabel="units to order")
    several = worlds.multi_item_inventory().solve().policy.reshape(7, 7)
    orders = several // 7 + several % 7
    perishable = worlds.perishable_stock().solve().policy.reshape(7, 7)
    for axes, title, units, x, y in (
        (panels[1], "two items", orders, "stock of the second", "stock of the first"),
        (panels[2], "perishable stock", perishable, "units two days old", "units one day old"),
    ):
        image = axes.imshow(units, origin="lower", cmap="cividis", aspect="auto")
        axes.set(title=title, xlabel=x, ylabel=y)
        figure.colorbar(image, ax=axes, label="units to order")
    catch(panels[3])


def catch(axes: Any) -> None:
    """One state of Catch: the ball falls, the paddle goes to its column."""
    for row in range(11):
        axes.plot([0, 5], [row, row], color=GREY, lw=0.5)
    for column in range(6):
        axes.plot([column, column], [0, 10], color=GREY, lw=0.5)
    axes.scatter([3.5], [6.5], s=130, color=ORANGE, zorder=3)
    axes.annotate("", (3.5, 4.6), (3.5, 6.0), arrowprops={"arrowstyle": "->", "color": ORANGE})
    axes.add_patch(plt.Rectangle((1.05, 0.1), 0.9, 0.5, color=DARK))
    axes.annotate("", (3.0, 0.35), (2.0, 0.35), arrowprops={"arrowstyle": "->", "color": DARK})
    axes.set(title="Catch", aspect="equal")
    axes.axis("off")


def access_control(figure: Any) -> None:
    """Whom to accept, in both orders."""
    for axes, order in zip(figure.subplots(1, 2), ("free-first", "accept-first"), strict=True):
        policy = 1 - worlds.access_control(order).solve().policy.reshape(11, 4).T
        heat_map(axes, order, policy, "free servers", "the customer pays", ["accept", "reject"])
        axes.set_yticks(range(4), ["1", "2", "4", "8"])


def two_loop(figure: Any) -> None:
    """The nine states and what the steps earn."""
    axes = figure.subplots()
    centre = np.array([0.0, 0.0])
    angles = np.linspace(0.0, 2.0 * np.pi, 6)[:-1]
    for side, first, colour, paid in ((-1, 1, BLUE, (0, "+1")), (1, 5, ORANGE, (4, "+2"))):
        ring = np.stack([side * (1.3 - 1.3 * np.cos(angles)), 0.9 * np.sin(angles)], axis=1)
        for i in range(5):
            a, b = ring[i], ring[(i + 1) % 5]
            axes.annotate("", b, a, arrowprops={"arrowstyle": "->", "color": colour, "shrinkA": 11, "shrinkB": 11})
            if i == paid[0]:
                middle = (a + b) / 2
                axes.text(
                    middle[0], middle[1] + 0.16 * np.sign(middle[1]), paid[1], ha="center", va="center", fontsize=11
                )
            if i:
                _node(axes, ring[i], first + i - 1, colour)
    _node(axes, centre, 0, DARK)
    axes.set(xlim=(-2.9, 2.9), ylim=(-1.15, 1.15))
    axes.axis("off")


def _node(axes: Any, point: Any, number: int, colour: str) -> None:
    axes.scatter(*point, s=330, color=colour, zorder=3)
    axes.text(*point, str(number), color="white", ha="center", va="center", zorder=4)


def red_pill_blue_pill(figure: Any) -> None:
    """The densities of the two worlds' rewards."""
    axes = figure.subplots()
    x = np.linspace(-1.25, 0.05, 600)

    def bell(mean: float) -> Any:
        return np.exp(-0.5 * ((x - mean) / 0.05) ** 2) / (0.05 * np.sqrt(2.0 * np.pi))

    densities = (
        ("red world", "#CC3311", bell(-0.7), -0.7),
        ("blue world", BLUE, 0.5 * bell(-1.0) + 0.5 * bell(-0.2), -0.6),
    )
    for name, colour, density, mean in densities:
        axes.fill_between(x, density, color=colour, alpha=0.35, lw=0)
        axes.plot(x, density, color=colour, label=name)
        axes.axvline(mean, color=colour, ls="--", lw=1.0)
    axes.set(xlabel="reward (dashed: means)", yticks=[], xlim=(-1.25, 0.05), ylim=(0, 8.5))
    axes.legend(fontsize=8, loc="upper right")


def films(figure: Any, name: str, states: list[tuple[Any, int]], **settings: Any) -> None:
    """A row of renderings: a state, then a step with an action."""
    for axes, (state, action) in zip(figure.subplots(1, len(states)), states, strict=True):
        env: Any = gymnasium.make(name, render_mode="rgb_array", **settings).unwrapped
        env.reset(seed=0)
        env.state = np.array(state)
        env.step(action)
        axes.imshow(env.render())
        axes.axis("off")


def pendulum(figure: Any) -> None:
    """The rod upright, pushed both ways, and hanging."""
    films(
        figure, "perstep/InvertedPendulum-v0", [((0.0, 0.0), 1), ((-0.9, 0.0), 2), ((2.0, 0.0), 0), ((np.pi, 0.0), 1)]
    )


def pendulum_swing_up(figure: Any) -> None:
    """Five moments of the controller of the page, on the way up."""
    env: Any = gymnasium.make("perstep/PendulumSwingUp-v0", render_mode="rgb_array").unwrapped
    env.reset()
    pictures = []
    for t in range(181):
        if t in (12, 60, 110, 160, 180):
            pictures.append(env.render())
        angle, velocity = env.state
        energy = 0.5 * velocity**2 + 4.9 * (np.cos(angle) - 1.0)
        towards = np.sign(velocity) if energy < 0 else -np.sign(velocity)
        if abs(angle) < 0.3:
            lean = angle + 0.35 * velocity
            towards = 0.0 if abs(lean) <= 0.002 else -np.sign(lean)
        env.step(int(towards if velocity or towards else 1.0) + 1)
    for axes, picture in zip(figure.subplots(1, len(pictures)), pictures, strict=True):
        axes.imshow(picture)
        axes.axis("off")


def puck_world(figure: Any) -> None:
    """The puck far away, on its way, and at the target."""
    films(
        figure,
        "perstep/PuckWorld-v0",
        [
            ((0.1, 0.2, 0.0, 0.0, 0.7, 0.8), 1),
            ((0.45, 0.5, 0.02, 0.02, 0.7, 0.8), 3),
            ((0.68, 0.78, 0.01, 0.01, 0.7, 0.8), 0),
            ((0.7, 0.8, 0.0, 0.0, 0.25, 0.35), 4),
        ],
        jump_probability=0.0,
    )


def classic_control(figure: Any) -> None:
    """CartPole, MountainCar and Acrobot, with lines."""
    pole, car, arms = figure.subplots(1, 3)
    pole.plot([-2.4, 2.4], [0, 0], color=GREY)
    pole.add_patch(plt.Rectangle((-0.15, 0.0), 0.7, 0.3, color=DARK))
    pole.plot([0.2, 0.34], [0.3, 1.25], color=ORANGE, lw=5, solid_capstyle="round")
    for end in (-2.4, 2.4):
        pole.plot([end, end], [-0.1, 0.5], color=GREEN)
    pole.set(title="CartPole", aspect="equal", ylim=(-0.3, 1.6))
    x = np.linspace(-1.2, 0.6, 200)
    car.plot(x, np.sin(3.0 * x), color=GREY)
    car.scatter([-0.85], [np.sin(-2.55) + 0.08], s=90, color=DARK, zorder=3)
    car.plot([0.5, 0.5], [np.sin(1.5), np.sin(1.5) + 0.35], color=GREEN)
    car.plot([0.5, 0.62], [np.sin(1.5) + 0.35, np.sin(1.5) + 0.28], color=GREEN, lw=4)
    car.set(title="MountainCar")
    first, second = 0.9, 0.7  # angles from hanging; the second relative to the first
    elbow = np.array([np.sin(first), -np.cos(first)])
    tip = elbow + np.array([np.sin(first + second), -np.cos(first + second)])
    arms.plot(*zip((0, 0), elbow, tip, strict=True), color=ORANGE, lw=5, solid_capstyle="round")
    arms.scatter(*zip((0, 0), elbow, strict=True), s=60, color=DARK, zorder=3)
    arms.plot([-2, 2], [1, 1], color=GREEN)
    arms.set(title="Acrobot", aspect="equal", xlim=(-2.1, 2.1), ylim=(-2.1, 1.4))
    for axes in (pole, car, arms):
        axes.axis("off")


def autoscaling(figure: Any) -> None:
    """Three days under the threshold rule."""
    env: Any = gymnasium.make("perstep/Autoscaling-v0").unwrapped
    observation, _ = env.reset(seed=1)
    rows = []
    for _ in range(3 * env.day_steps):
        observation, *_ = env.step(env.heuristic(observation))
        _, servers, ready_at, waiting, demand, _ = env.state
        rows.append((demand, servers * env.requests_per_server, len(ready_at) * env.requests_per_server, waiting))
    demand, serving, starting, waiting = np.array(rows).T
    days = np.arange(len(rows)) / env.day_steps
    axes = figure.subplots()
    axes.fill_between(days, serving, step="mid", color=BLUE, alpha=0.25, lw=0, label="servers on")
    axes.fill_between(days, serving, serving + starting, step="mid", color=ORANGE, alpha=0.6, lw=0, label="starting")
    axes.plot(days, demand, color=DARK, lw=0.7, label="demand")
    axes.plot(days, waiting, color="#CC3311", lw=1.0, label="waiting")
    axes.set(xlabel="days", ylabel="requests per step", xlim=(0, 3), ylim=(0, None))
    axes.legend(fontsize=7, ncols=4, loc="upper right")


def continuous_actions(figure: Any) -> None:
    """The optimal policies of the store of energy and of the reservoir."""
    left, right = figure.subplots(1, 2)
    best = gymnasium.make("perstep/EnergyStorage-v0").unwrapped.solve()  # type: ignore[attr-defined]
    left.axhspan(0.0, best.buy_below, color=BLUE, alpha=0.5, lw=0, label="fill")
    left.axhspan(best.sell_above, 1.0, color=ORANGE, alpha=0.6, lw=0, label="empty")
    left.set(title="Store of energy", xlabel="level", ylabel="price", xlim=(0, 1), ylim=(0, 1))
    left.legend(fontsize=7)
    policy = np.asarray(gymnasium.make("perstep/Reservoir-v0").unwrapped.on_a_grid(100).solve().policy)  # type: ignore[attr-defined]
    right.plot(np.linspace(0.0, 1.0, len(policy)), policy / 100, color=BLUE, drawstyle="steps-mid")
    right.set(title="Reservoir", xlabel="level", ylabel="best release", xlim=(0, 1), ylim=(0, 0.5))


PICTURES: dict[str, tuple[Callable[[Any], None], tuple[float, float]]] = {
    "operations": (operations, (11.0, 3.1)),
    "chains": (chains, (12.5, 5.0)),
    "stock": (stock, (11.0, 3.0)),
    "access-control": (access_control, (8.0, 2.3)),
    "two-loop": (two_loop, (5.5, 2.3)),
    "red-pill-blue-pill": (red_pill_blue_pill, (5.5, 2.3)),
    "pendulum": (pendulum, (8.0, 2.0)),
    "pendulum-swing-up": (pendulum_swing_up, (10.0, 2.0)),
    "puck-world": (puck_world, (8.0, 2.0)),
    "classic-control": (classic_control, (8.0, 2.2)),
    "autoscaling": (autoscaling, (8.0, 2.5)),
    "continuous-actions": (continuous_actions, (8.0, 2.5)),
}
"""Name of the file, without its suffix → function that draws it, and its size in inches."""


def main(names: list[str]) -> None:
    """Draw the pictures."""
    for name in names or PICTURES:
        draw, size = PICTURES[name]
        figure = plt.figure(figsize=size, layout="constrained")
        draw(figure)
        # Without the name of the software: the same worlds give the same file.
        figure.savefig(Path(__file__).parent / f"{name}.png", dpi=100, metadata={"Software": None})
        plt.close(figure)


if __name__ == "__main__":
    perstep.worlds.register()
    main(sys.argv[1:])
