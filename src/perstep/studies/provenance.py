"""Where results come from: command, versions, commit, machine and time, in a JSON file beside the results."""

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
    """Add one invocation of the command, which made `runs` runs, to the record of a folder. Without runs, a record stays unchanged.

    Several shards of a study may run at the same time, so each has a record of its own; `gather_shares` adds them up.
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
        # If nothing ran and there is no record, the record was lost: the time is unknown.
        "seconds": round((before.get("seconds") or 0.0) + seconds, 3) if runs else None,
        "versions": versions(),
        "commit": commit(),
        "machine": machine(),
    }
    write_json(path, record)


def gather_shares(folder: Path) -> None:
    """Make the record of a folder from the records of its shards: the sums of their sessions, runs and seconds."""
    shares = [_read(path) for path in sorted(folder.glob("provenance-*.json"))]
    if not shares or (folder / FILE).exists():
        return
    sums = {name: sum(share.get(name) or 0 for share in shares) for name in ("sessions", "runs", "seconds")}
    last = sorted(shares, key=lambda share: str(share.get("written")))[-1]
    write_json(folder / FILE, last | sums)


def versions() -> dict[str, str]:
    """Versions of everything that may change the bits of a run."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    found.setdefault("perstep", str(getattr(sys.modules.get("perstep"), "__version__", "unknown")))
    return found


def commit() -> str | None:
    """The Git commit of the sources, followed by + if there are local changes; None if they are not in a Git repository."""
    try:
        _git("ls-files", "--error-unmatch", str(SOURCES / "__init__.py"))  # fails inside another project's repository
        return _git("rev-parse", "HEAD") + ("+" if _git("status", "--porcelain", "--", str(SOURCES)) else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=SOURCES, capture_output=True, text=True, check=True, timeout=10)
    return done.stdout.strip()


def machine() -> dict[str, Any]:
    """The machine: operating system, processor and number of cores."""
    system = f"{platform.system()} {platform.release()}"
    return {"system": system, "processor": processor_name(), "cores": usable_cores()}


def write_json(path: Path, content: Any) -> None:
    """Publish a JSON file."""
    with publishing(path) as draft:
        draft.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
