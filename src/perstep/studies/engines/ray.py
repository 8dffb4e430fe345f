"""Many machines: every unit is a task of a Ray cluster, with one core of its own, and is tried again where its worker dies.

Only this process writes results, so the machines need no common disk.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from perstep.algorithms import algorithm
from perstep.studies.results import Row
from perstep.studies.runs import Unit, Work, is_compiled, run_unit

RETRIES = 3  # of a unit whose worker or machine died
GPU_SHARE = 0.25  # of a GPU for a run with a network, where the cluster has any: such networks are small
KNOCK = 10.0  # seconds in which a cluster should answer
OBJECT_STORE = 256 * 2**20  # bytes on this machine for rows on their way; by itself Ray takes a third of the memory


@dataclass(frozen=True)
class RayEngine:
    """A cluster by its address; without one, Ray as it runs in this process already, or started on this machine."""

    address: str | None = None
    name: str = "ray"

    def work(self, units: Sequence[Unit]) -> Work:
        """The rows of all units: compiled ones whole, since their runs are short, the others run by run."""
        ray = _imported()
        tasks = [task for unit in units for task in ([unit] if is_compiled(unit.study, unit.code) else unit.split())]
        with _connected(ray, self.address):
            gpus = ray.cluster_resources().get("GPU", 0.0)
            remote = ray.remote(run_unit)
            running = {remote.options(**_needs(task, gpus)).remote(task): task for task in tasks}
            try:
                while running:
                    ready, _ = ray.wait(list(running), num_returns=1)
                    for reference in ready:
                        task = running.pop(reference)
                        yield task, _rows(ray, reference, task)
            finally:
                for reference in running:
                    ray.cancel(reference, force=True)


def _needs(unit: Unit, gpus: float) -> dict[str, Any]:
    """What a task asks of the machine that takes it."""
    needs: dict[str, Any] = {"num_cpus": 1, "max_retries": RETRIES}
    device = {**unit.study.fixed, **unit.setting}.get("device", "auto")
    if gpus and device != "cpu" and algorithm(unit.study.algorithm).learner.values == "network":
        needs["num_gpus"] = GPU_SHARE
    return needs


def _rows(ray: Any, reference: Any, unit: Unit) -> list[Row]:
    """What came of a unit; that its worker died again and again is its failure, not the study's."""
    try:
        return ray.get(reference)  # type: ignore[no-any-return]
    except ray.exceptions.RayError as error:
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        return unit.failed(f"{type(error).__name__}: {first.strip()}")


def _imported() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ImportError(
            "--engine ray needs Ray, which is not installed: pip install 'perstep[ray]'", name="ray"
        ) from error
    return ray


@contextlib.contextmanager
def _connected(ray: Any, address: str | None) -> Iterator[None]:
    """Ray for as long as the study needs it; one that was there before stays."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    with _kept_signals():
        try:
            if address is None:
                with _path_for_workers():
                    cores = len(os.sched_getaffinity(0))
                    ray.init(
                        "local", num_cpus=cores, include_dashboard=False, object_store_memory=OBJECT_STORE, **quiet
                    )
            else:
                _knock(address)
                ray.init(address, **quiet)
        except (OSError, ValueError) as error:
            where = "on this machine" if address is None else f"at {address}"
            raise ConnectionError(f"Ray could not be reached {where}: {error}") from error
        try:
            yield
        finally:
            ray.shutdown()


def _knock(address: str) -> None:
    """Ray itself would wait minutes for a machine that does not answer."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        with socket.create_connection((host, int(port)), timeout=KNOCK):
            pass


@contextlib.contextmanager
def _path_for_workers() -> Iterator[None]:
    """Let the processes of a Ray that starts here import what this one can; elsewhere perstep has to be installed."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


@contextlib.contextmanager
def _kept_signals() -> Iterator[None]:
    """Ray takes SIGTERM for itself and does not give it back."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
