"""A claim of the paper beside what was measured: a verdict with a number and a tolerance, never a bare yes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of the paper, and what came of it."""

    where: str
    """Where the paper says it."""
    says: str
    measured: str
    tolerance: str
    holds: bool
