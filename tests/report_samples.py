"""Small results folders in the form that `perstep reproduce` leaves, made in milliseconds and without a run."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
from matplotlib.figure import Figure

Claim = dict[str, str]

CLAIMS: list[Claim] = [
    {
        "where": "Fig. 2c",
        "says": "D2's reward quantiles converge to those of the optimal policy",
        "measured": "the worst quantile is 0.0015 off in the mean over runs",
        "tolerance": "0.01 in the mean",
        "verdict": "holds",
        "figure": "figure_2",
    },
    {
        "where": "Fig. C.4",
        "says": "D3's return quantiles converge",
        "measured": "they still move by up to 12.5 % of their spread",
        "tolerance": "5 %",
        "verdict": "does not hold",
        "figure": "figures/figure_c4.png",  # a path will do as well
    },
    {
        "where": "Fig. 3",
        "says": "D2 is competitive with Differential",
        "measured": "There are no results of redpill/d2-q.",
        "tolerance": "",
        "verdict": "not run",
        "figure": "figure_3",  # which is not drawn
    },
    {
        "where": "App. C.1",
        "says": "all algorithms learn to stay in the blue world",
        "measured": "50 of 50 runs",
        "tolerance": "all runs",
        "verdict": "holds",
        "figure": "",
    },
]

PROVENANCE = {
    "command": "perstep reproduce redpill --scale small --out results",
    "seconds": 125.0,
    "commit": "0123abcd",
    "versions": {"perstep": "0.1.0", "numpy": "2.4.6"},
    "machine": {"cores": 2},
}


@cache
def _picture() -> bytes:
    """A drawing, the same for all figures."""
    figure, file = Figure(figsize=(7, 3)), io.BytesIO()
    figure.subplots().plot([0, 1], [1, 0])
    figure.savefig(file, dpi=60)
    return file.getvalue()


def write_part(
    results: Path,
    part: str = "redpill",
    scale: str = "small",
    *,
    claims: list[Claim] | None = None,
    provenance: dict[str, Any] | None = None,
    figures: tuple[str, ...] = ("figure_c4", "figure_2"),
) -> Path:
    """A folder with claims, provenance and figures; returns it."""
    folder = results / part / scale
    (folder / "figures").mkdir(parents=True)
    (folder / "claims.json").write_text(json.dumps(CLAIMS if claims is None else claims))
    (folder / "provenance.json").write_text(json.dumps(PROVENANCE if provenance is None else provenance))
    for name in figures:
        (folder / "figures" / f"{name}.png").write_bytes(_picture())
    return folder


def write_runs(
    folder: Path,
    algorithm: str,
    rewards: dict[str, list[float]],
    error: str | None = None,
    curves: dict[str, list[list[float]]] | None = None,
) -> None:
    """A file a configuration, as {"step_size=0.002,reward_ratio=2": rewards of the runs}; with an error, its last run failed."""
    for name, values in rewards.items():
        setting = {key: float(value) for key, value in (pair.split("=") for pair in name.split(","))}
        about = {
            "world": "perstep/RedPillBluePill-v0",
            "algorithm": algorithm,
            "steps": 1000,
            "settings": {"epsilon": 0.1, **setting},
        }
        errors = [*[None] * (len(values) - 1), error]
        frame = pl.DataFrame(
            {
                "description": [json.dumps(about)] * len(values),
                "seed": [1000 * i for i in range(len(values))],
                "error": errors,
                "average_reward": [None if why else value for value, why in zip(values, errors, strict=True)],
            },
            schema_overrides={"error": pl.String},
        )
        if curves is not None:
            frame = frame.with_columns(pl.Series("reward_rate", curves[name]))
        path = folder / algorithm / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.write_parquet(path)
