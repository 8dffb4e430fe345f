"""What people install: the wheel and the archive of sources hold what is needed, and a user's script runs."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "perstep").rglob("*.py")}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT], check=True, capture_output=True
    )
    return folder


def test_the_wheel_holds_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {*SOURCES, "perstep/py.typed"} <= names
    assert not [name for name in names if not name.startswith("perstep")], "nothing lands beside the package"


def test_the_archive_of_sources_can_be_tested(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        names = {name.split("/", 1)[-1] for name in files.getnames()}
    assert {"pyproject.toml", "README.md", "Makefile", "constraints.txt", "tests/oracles.py", "docs/index.md"} <= names


def test_the_script_that_is_checked_for_types_runs(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tests" / "user_script.py"], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "agent.safetensors").exists()
