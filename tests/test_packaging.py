"""What people install: the wheel and the archive of sources hold what is needed, and a user's script runs."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy
import pytest

import perstep

ROOT = Path(__file__).parents[1]
NAMED_WHEN_MISSING = {"perstep", "imageio_ffmpeg"}  # what an error says how to install, for one kind of file
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


def test_the_wheel_runs_in_an_environment_of_its_own(built: Path, tmp_path: Path) -> None:
    """Installed without this checkout. Its dependencies are those of these tests: .ci/run need not download them again.

    What the wheel declares is compared with what its modules import in test_the_declared_dependencies_are_those_imported.
    """
    venv.create(tmp_path / "env", symlinks=True)
    python = tmp_path / "env" / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True, capture_output=True)
    site = next((tmp_path / "env").glob("lib/python*/site-packages"))
    libraries = Path(numpy.__file__).parents[1]
    (site / "libraries.pth").write_text(
        f"{libraries}\n"
    )  # no .pth file in there is read, so this checkout is not found
    code = (
        "import sys, perstep; from perstep.app.cli import main; print(perstep.__file__, perstep.__version__); "
        "mdp = perstep.worlds.two_loop(); print(mdp.solve()); sys.exit(main(['list']))"
    )
    command = [python, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, check=True, capture_output=True, text=True, env={"PATH": os.environ["PATH"]}
    )
    assert done.stdout.startswith(f"{site / 'perstep'}")
    assert "average_reward 0.4, optimum proven within" in done.stdout
    assert "d2-q" in done.stdout


def test_the_declared_dependencies_are_those_imported(built: Path) -> None:
    """The modules that the wheel imports: of Python, its own, required, or of an extra."""
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        (metadata,) = (name for name in files.namelist() if name.endswith("METADATA"))
        lines = files.read(metadata).decode().splitlines()
        code = {name: files.read(name).decode() for name in files.namelist() if name.endswith(".py")}
    declared = {
        re.split(r"[^\w-]", line.removeprefix("Requires-Dist: "))[0].lower().replace("_", "-")
        for line in lines if line.startswith("Requires-Dist: ")
    }  # fmt: skip
    provided = importlib.metadata.packages_distributions()
    for name, text in code.items():
        for module in {top for node in ast.walk(ast.parse(text)) for top in _imported(node)} - sys.stdlib_module_names:
            distributions = {each.lower().replace("_", "-") for each in provided.get(module, [module])}
            assert module in NAMED_WHEN_MISSING or distributions & declared, (
                f"{name} imports {module}, which is not declared."
            )


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        return [node.module.partition(".")[0]]
    return []


def test_one_version_everywhere() -> None:
    (project,) = re.findall(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    (citation,) = re.findall(r"^version: (.*)", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert perstep.__version__ == project == citation
