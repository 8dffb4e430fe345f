"""Settings that hold for every test."""

import importlib.util
import os
import signal

import pytest
from hypothesis import settings

os.environ.setdefault("MPLBACKEND", "Agg")  # figures are drawn without a screen

# The first call of a compiled function takes seconds, and no test depends on wall time.
settings.register_profile("perstep", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("perstep")


# Files whose tests are few and long. With one file at a time for each process, the last ones must be short, or one core waits.
# The first two compile what the others then find compiled: tables in one process, and tiles in the other.
LONG_FILES = (
    "tabular/test_learning.py", "tiles/test_defaults.py", "studies/test_engines.py", "tests/test_docs.py", "rules/test_recipe.py",
    "deep/test_defaults.py", "paper/test_reproduction.py", "studies/test_run_checkpoints.py", "deep/test_saving.py",
    "training/test_run.py", "tests/test_benchmarks.py", "paper/test_theory.py", "agent/test_determinism.py",
    "rules/test_horizon.py",
)  # fmt: skip


def place(item: pytest.Item) -> int:
    """Of the file of a test in the list of long ones; behind it for all others."""
    path = item.path.as_posix()
    return next((i for i, name in enumerate(LONG_FILES) if path.endswith("/" + name)), len(LONG_FILES))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first, in their order; the others as they were."""
    items.sort(key=place)


WITHOUT_TORCH = importlib.util.find_spec("torch") is None


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object:
    """Where PyTorch is not installed, a test that needs it is skipped and says so."""
    try:
        return (yield)
    except ImportError as error:
        if WITHOUT_TORCH and ("needs PyTorch" in str(error) or error.name == "torch"):
            pytest.skip("This test needs PyTorch, which is not installed.")
        raise


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Training runs without figures, which take longer than such short runs."""
    monkeypatch.setattr("perstep.app.training.run.draw", lambda folder: None)


@pytest.fixture
def one_thread():
    """PyTorch with one thread, whose number changes the last bits."""
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True, scope="session")
def interruptible():
    """A shell that starts the tests in the background lets them ignore SIGINT; those that are interrupted would go on for ever."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
