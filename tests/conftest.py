"""Settings that hold for every test."""

import os

import pytest
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")  # figures are drawn without a screen

# The first call of a compiled function takes seconds, and no test depends on wall time.
settings.register_profile("perstep", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("perstep")


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training runs without figures, which take longer than such short runs."""
    monkeypatch.setattr("perstep.training.run.draw", lambda folder: None)
