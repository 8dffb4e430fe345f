"""Where results come from: the command, versions, commit, machine and time, in a file beside them."""

from __future__ import annotations

import contextlib
import json
import platform
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from perstep.studies.results import publishing
from perstep.system.processors import processor_name, usable_cores

FILE = "provenance.json"
LIBRARIES = ("perstep", "numpy", "numba", "scipy", "gymnasium", "polars", "torch", "ray")
SOURCES = Path(__file__).parent.parent


def write_provenance(
    folder: Path, *, command: str, engine: str, seconds: float, runs: int, share: str | None = None
) -> None:
    """Add a session that made so many runs to the record of a folder; one that made none changes nothing that is there.

    A share of a study, which others may write beside, has a record of its own, and the whole is made from them.
    """
    path = folder / (f"provenance-{share}.json" if share else FILE)
    before = _read(path)
    if not runs and before:
        return
    now = datetime.now(UTC).isoformat(timespec="seconds")
    record = {
        "command": command,
        "engine": engine,
        "started": before.get("started") or now,
        "written": now,
        "sessions": before.get("sessions", 0) + 1,
        "runs": before.get("runs", 0) + runs,
        # If nothing ran and there is no record, one was lost: how long it took is not known.
        "seconds": round((before.get("seconds") or 0.0) + seconds, 3) if runs else None,
        "versions": versions(),
        "commit": commit(),
        "machine": machine(),
    }
    write_json(path, record)


def gather_shares(folder: Path) -> None:
    """Make the record of a folder from those of its shares: their sessions, runs and seconds together."""
    shares = [_read(path) for path in sorted(folder.glob("provenance-*.json"))]
    if not shares or (folder / FILE).exists():
        return
    together = {name: sum(share.get(name) or 0 for share in shares) for name in ("sessions", "runs", "seconds")}
    last = sorted(shares, key=lambda share: str(share.get("written")))[-1]
    write_json(folder / FILE, last | together)


def versions() -> dict[str, str]:
    """Of what may change the bits of a run."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    found.setdefault("perstep", str(getattr(sys.modules.get("perstep"), "__version__", "unknown")))
    return found


def commit() -> str | None:
    """The commit of the sources, with a + if they differ from it; None if they are not under Git."""
    try:
        _git("ls-files", "--error-unmatch", str(SOURCES / "__init__.py"))  # not merely inside somebody's repository
        return _git("rev-parse", "HEAD") + ("+" if _git("status", "--porcelain", "--", str(SOURCES)) else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=SOURCES, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """What it ran on."""
    system = f"{platform.system()} {platform.release()}"
    return {"system": system, "processor": processor_name(), "cores": usable_cores()}


def write_json(path: Path, content: Any) -> None:
    """Publish a file of JSON."""
    with publishing(path) as draft:
        draft.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
