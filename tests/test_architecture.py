"""The arrows of the package, held by reading its sources: who may import whom, and what nobody may do.

Every import counts, also one inside a function or under TYPE_CHECKING: to name a module is to know it.
"""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCES = Path(__file__).parent.parent / "src" / "perstep"

# A folder imports only folders of a lower rank. Folders of one rank do not know each other: families of learners, above all.
RANKS = {
    "system": 0,
    "numerics": 0,
    "display": 0,
    "inputs": 1,
    "files": 1,
    "rules": 2,
    "distributions": 3,
    "mdp": 4,
    "worlds": 5,
    "gym": 6,
    "agent": 7,
    "tabular": 8,
    "tiles": 8,
    "deep": 8,
    "planning": 8,
    "studies": 9,
    "paper": 10,
    "": 11,  # perstep/__init__.py, the public names
    "app": 12,
}

FAMILIES = {"tabular", "tiles", "deep", "planning"}
KNOW_THE_INSIDES = {
    "loop",
    "agent",
    "tile_agent",
    "known",
    "life",
}  # modules of a family that may know the compiled side of a world
INSIDES = {"worlds", "mdp.sampler"}
READS_FILES = ("paper.figures", "paper.report")
NEVER_READ_BY_THEM = {"rules.transition", "mdp", "worlds", "gym", "agent", *FAMILIES}

EXECUTES_CODE = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
OWN_RANDOMNESS = {"Generator", "BitGenerator", "SeedSequence", "default_rng", "PCG64", "PCG64DXSM", "Philox", "SFC64"}
NOT_EVERYWHERE = {"signal", "fcntl", "msvcrt", "resource", "ctypes", "select", "pwd", "grp", "termios"}  # modules ...
NOT_EVERYWHERE_CALLS = {
    "os.sched_getaffinity",
    "os.fork",
    "os.kill",
    "os.uname",
    "os.geteuid",
    "os.sysconf",
}  # ... and calls
SAYS_NOTHING = {"utils", "util", "common", "base", "helpers", "helper", "misc"}
EXTRAS = ("torch", "ale_py", "minatar", "tensorboard", "ray", "stable_baselines3", "sb3_contrib", "wandb")


# -------------------------------------------------------------------------------------------------- reading the sources


def module_name(path: Path) -> str:
    """`mdp.building` for mdp/building.py, `deep` for deep/__init__.py, "" for perstep's own __init__.py."""
    parts = path.relative_to(SOURCES).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = {module_name(path): path for path in sorted(SOURCES.rglob("*.py"))}


def package(module: str) -> str:
    return module.partition(".")[0]


def rank(module: str) -> int | None:
    return RANKS.get(package(module))


def imports(tree: ast.AST, module: str, modules: set[str]) -> Iterator[str]:
    """Absolute names of all that is imported; `from perstep.rules import lattice` is `perstep.rules.lattice`."""
    here = ["perstep", *module.split(".")] if module else ["perstep"]
    folder = here if module == "" or any(other.startswith(f"{module}.") for other in modules) else here[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else []
            source = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{source}.{alias.name}"
                yield whole if whole.removeprefix("perstep.") in modules else source


def own(names: Iterator[str]) -> set[str]:
    """Those of the names that are ours, without the leading `perstep.`."""
    return {name.removeprefix("perstep").removeprefix(".") for name in names if package(name) == "perstep"}


def dotted(node: ast.AST) -> str:
    """`np.random.seed` for that attribute; "" for anything that is not a plain chain of names."""
    if isinstance(node, ast.Attribute) and (head := dotted(node.value)):
        return f"{head}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def says(call: ast.Call, keyword: str, value: bool) -> bool:
    return any(k.arg == keyword and isinstance(k.value, ast.Constant) and k.value.value is value for k in call.keywords)


# ------------------------------------------------------------------------------------------------------------ the rules


def wrong_arrows(module: str, known: set[str]) -> Iterator[str]:
    mine = rank(module)
    if mine is None:
        yield f"`{module}` is in no folder with a rank: add it to RANKS in tests/test_architecture.py, above all that it imports."
        return
    for other in sorted(known - {module}):
        theirs = rank(other)
        if package(other) == "app" and package(module) != "app":
            yield f"`{module}` imports `{other}`; nothing imports app: move what it needs below the command line."
        elif other == "" and package(module) != "app":
            yield f"`{module}` imports from `perstep` itself, which imports everything: name the module instead."
        elif theirs is None:
            yield f"`{module}` imports `{other}`, which has no rank: add it to RANKS in tests/test_architecture.py."
        elif theirs >= mine and package(other) != package(module):
            yield f"`{module}` (rank {mine}) imports `{other}` (rank {theirs}), but arrows point to lower ranks only."


def wrong_meetings(module: str, known: set[str]) -> Iterator[str]:
    if package(module) in FAMILIES and module.partition(".")[2] not in KNOW_THE_INSIDES:
        for other in sorted(known):
            if other in INSIDES or package(other) in INSIDES:
                yield f"`{module}` knows the insides of a world, `{other}`; only the loop and the agent of a family may."
    if module.startswith(READS_FILES):
        read = {other for other in known if other in NEVER_READ_BY_THEM or package(other) in NEVER_READ_BY_THEM}
        if read:
            yield f"`{module}` reads files, but imports {', '.join(sorted(read))}: take the numbers from the results."


def wrong_libraries(module: str, names: set[str]) -> Iterator[str]:
    libraries = {package(name) for name in names}
    if "torch" in libraries and package(module) != "deep":
        yield f"`{module}` imports torch, which is an extra: only modules under deep/ may."
    if libraries & EXECUTES_CODE:
        yield f"`{module}` imports {', '.join(sorted(libraries & EXECUTES_CODE))}: loading must never execute code."
    if libraries & NOT_EVERYWHERE and package(module) != "system":
        yield f"`{module}` imports {', '.join(sorted(libraries & NOT_EVERYWHERE))}: only system/ may, with a fallback."
    if "random" in libraries:
        yield f"`{module}` imports random, one generator for everybody: a run owns its randomness (numerics/randomness.py)."


def wrong_calls(module: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = dotted(node).replace("numpy.", "np.", 1)
            if name.startswith("np.random.") and name.split(".")[2] not in OWN_RANDOMNESS:
                yield f"`{module}` line {node.lineno} uses {name}, NumPy's global generator: pass a Generator."
        if isinstance(node, ast.ImportFrom) and node.module in {"numpy", "numpy.random"}:
            for alias in node.names:
                if alias.name == "load" or (node.module == "numpy.random" and alias.name not in OWN_RANDOMNESS):
                    yield f"`{module}` line {node.lineno} imports {alias.name} from {node.module}: say np at the call."
        if isinstance(node, ast.Call):
            called = dotted(node.func).replace("numpy.", "np.", 1)
            if called == "np.load" and not says(node, "allow_pickle", False):
                yield f"`{module}` line {node.lineno} calls np.load without allow_pickle=False."
            if called == "torch.load" and not says(node, "weights_only", True):
                yield f"`{module}` line {node.lineno} calls torch.load without weights_only=True."
            if called in NOT_EVERYWHERE_CALLS and package(module) != "system":
                yield f"`{module}` line {node.lineno} calls {called}, which not every system has: only system/ may."
            if called in {"eval", "exec"}:
                yield f"`{module}` line {node.lineno} calls {called}: text is never executed."


def faults(module: str, source: str, modules: set[str]) -> list[str]:
    """Every rule broken by this source, each as a sentence."""
    tree = ast.parse(source)
    names = set(imports(tree, module, modules))
    known = own(iter(names))
    return [
        *wrong_arrows(module, known),
        *wrong_meetings(module, known),
        *wrong_libraries(module, names),
        *wrong_calls(module, tree),
    ]


# ------------------------------------------------------------------------------------------------------------ the tests


@pytest.mark.parametrize("module", PATHS, ids=lambda module: module or "perstep")
def test_module_keeps_the_rules(module: str) -> None:
    found = faults(module, PATHS[module].read_text(encoding="utf-8"), set(PATHS))
    assert not found, "\n" + "\n".join(found)


def test_no_import_cycle() -> None:
    graph = {}
    for module, path in PATHS.items():
        known = own(imports(ast.parse(path.read_text(encoding="utf-8")), module, set(PATHS)))
        graph[module] = (known & set(PATHS)) - {module, package(module)}  # a module may name its own package
    cycle: list[str] = []
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        cycle = error.args[1]
    assert not cycle, f"These modules import each other: {' → '.join(cycle)}."


def test_no_name_that_says_nothing() -> None:
    for path in SOURCES.rglob("*"):
        vague = SAYS_NOTHING & set(path.relative_to(SOURCES).with_suffix("").parts)
        assert not vague, f"{path.relative_to(SOURCES)}: a name must say what is inside."


BLOCK_EXTRAS = f"""
import sys

class NotInstalled:
    # A finder rather than None in sys.modules: libraries look there to learn whether torch is in use.
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, NotInstalled())
"""


@pytest.mark.parametrize("module", ["perstep", "perstep.app.cli"])
def test_imports_without_extras(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"{BLOCK_EXTRAS}\nimport {module}"], capture_output=True, text=True)
    assert done.returncode == 0, f"`import {module}` needs an extra:\n{done.stderr}"


# Each rule sees the fault it is there for: a source that breaks it, and words of the sentence.
PLANTED = [
    ("numerics.quantiles", "from perstep.rules.transition import d2", "arrows point to lower ranks"),
    ("numerics.quantiles", "from perstep import rules", "arrows point to lower ranks"),
    ("numerics.quantiles", "from .. import rules", "arrows point to lower ranks"),
    ("numerics.quantiles", "def f():\n    import perstep.rules.transition", "arrows point to lower ranks"),
    ("mdp.mdp", "from ..tabular import kernel", "arrows point to lower ranks"),
    ("agent.agent", "from ..studies import engines", "arrows point to lower ranks"),
    ("tiles.agent", "from perstep.tabular import kernel", "arrows point to lower ranks"),
    ("tabular.kernel", "from perstep.worlds import motion", "only the loop and the agent of a family may"),
    ("tabular.kernel", "from perstep.mdp.sampler import step", "only the loop and the agent of a family may"),
    ("paper.figures.redpill", "from perstep.agent import agent", "take the numbers from the results"),
    ("paper.figures.games", "from perstep.worlds import motion", "take the numbers from the results"),
    ("paper.catalog", "from perstep.app.cli import main", "nothing imports app"),
    ("agent.agent", "from perstep import QLearning", "name the module instead"),
    ("newcomer", "", "is in no folder with a rank"),
    ("agent.agent", "import perstep.newcomer", "has no rank: add it to RANKS"),
    ("rules", "import torch.nn", "only modules under deep/"),
    ("agent", "def f():\n    from torch import nn", "only modules under deep/"),
    ("files.storage", "import pickle", "never execute code"),
    ("files.storage", "import numpy as np\nnp.load('a.npy')", "without allow_pickle=False"),
    ("files.storage", "import numpy as np\nnp.load('a.npy', allow_pickle=True)", "without allow_pickle=False"),
    ("files.storage", "from numpy import load", "imports load from numpy"),
    ("deep.networks", "import torch\ntorch.load('a.pt')", "without weights_only=True"),
    ("rules.settings", "eval('1')", "never executed"),
    ("tabular", "import numpy as np\nnp.random.seed(0)", "global generator"),
    ("tabular", "import numpy\nnumpy.random.rand(3)", "global generator"),
    ("tabular", "from numpy.random import rand", "imports rand from numpy.random"),
    ("tabular", "import random", "a run owns its randomness"),
    ("files.folder_lock", "import fcntl", "only system/ may, with a fallback"),
    ("agent", "import os\nos.sched_getaffinity(0)", "which not every system has"),
]


@pytest.mark.parametrize(("module", "source", "words"), PLANTED)
def test_planted_fault_is_found(module: str, source: str, words: str) -> None:
    modules = {
        "",
        "rules",
        "rules.transition",
        "tabular",
        "tabular.kernel",
        "worlds",
        "worlds.motion",
        "mdp",
        "mdp.sampler",
    }
    modules |= {"agent", "agent.agent", "studies", "studies.engines", "app", "app.cli", "novelty", "deep", "mdp.mdp"}
    assert any(words in fault for fault in faults(module, source, modules))


def test_allowed_forms_are_allowed() -> None:
    modules = {
        "",
        "rules",
        "rules.transition",
        "tabular",
        "tabular.kernel",
        "worlds",
        "mdp",
        "mdp.mdp",
        "mdp.sampler",
        "deep",
    }
    allowed = [
        ("tabular.loop", "from perstep.tabular import kernel\nfrom perstep.mdp.sampler import step"),
        ("mdp.building", "from .mdp import FiniteMDP"),
        ("worlds", "from perstep.mdp import mdp"),
        (
            "deep.losses",
            "import torch\nfrom perstep.rules.transition import RULES\ntorch.load('a.pt', weights_only=True)",
        ),
        ("files.storage", "import numpy as np\nnp.load('a.npy', allow_pickle=False)"),
        ("system.processors", "import os, signal\nos.sched_getaffinity(0)"),
        ("tabular.kernel", "import numpy as np\nnp.random.SeedSequence(0)\nnp.random.default_rng(1).random()"),
        ("", "from perstep import tabular\nfrom perstep.worlds import mdp"),
    ]
    for module, source in allowed:
        assert faults(module, source, modules) == []


@pytest.mark.parametrize("start", ["import perstep", "from perstep.app.cli import main; main(['--help'])"])
def test_the_beginning_waits_for_no_compiler(start: str) -> None:
    heavy = ("numba", "polars", "matplotlib", "scipy", "torch", "rich", "yaml")
    script = f"{start}\nimport sys; print('loaded:', *(name for name in {heavy} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("loaded:"), done.stdout


def test_the_worlds_are_registered_and_every_public_name_is_found() -> None:
    import gymnasium

    import perstep

    assert "perstep/TwoLoop-v0" in gymnasium.registry
    assert all(getattr(perstep, name) is not None for name in perstep.__all__)
    assert perstep.worlds.garnet is not None
    with pytest.raises(AttributeError, match=r"perstep has no 'Qlearning'\. It has: ALGORITHMS"):
        perstep.Qlearning  # noqa: B018
    with pytest.raises(AttributeError, match=r"Use perstep\.DeepQ\(env\)"):
        perstep.DQN  # noqa: B018
