"""The engine that uses many machines: every unit is a task of a Ray cluster with one core, retried if its worker or machine dies.

Only this process writes results, so the machines need no shared disk.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from perstep.rules.lattice import algorithm
from perstep.studies.engines.process_pool import run_in_process
from perstep.studies.measurement import Row
from perstep.studies.runs import Unit, UnitUpdates, is_compiled, run_unit
from perstep.studies.study import Study
from perstep.system.processors import usable_cores
from perstep.system.signals import restored_handlers

RETRIES = 3  # by Ray, of a unit whose worker or machine died
GPU_SHARE = 0.25  # of a GPU for each run with a network, if the cluster has GPUs: the networks are small
CONNECT_TIMEOUT = 10.0  # seconds in which a cluster must answer
LOST = (
    f"NodeDiedError: the machine of this run died in each of {RETRIES + 1} attempts, and no other run ended meanwhile. Does it "
    "need more memory than a machine has? Give --retry-failed to run it again."
)
LOOK_AT_NODES = 10.0  # seconds without a result after which to see whether any machine is left
OBJECT_STORE = 256 * 2**20  # bytes on this machine for rows in transit; Ray's default is a third of the memory


@dataclass(frozen=True)
class RayEngine:
    """The cluster at `address`; without an address, the Ray that this process already runs, or one started on this machine."""

    address: str | None = None
    name: str = "ray"

    def work(self, units: Sequence[Unit]) -> UnitUpdates:
        """The rows of all units, as tasks of Ray: one for a compiled unit, since its runs are short, else one for each run."""
        if self.address is None:
            _require_token()
        ray = _imported()
        tasks = [task for unit in units for task in ([unit] if is_compiled(unit.study, unit.code) else unit.split())]
        with _connected(ray, self.address):
            gpus = ray.cluster_resources().get("GPU", 0.0)
            remote = {False: ray.remote(run_unit), True: ray.remote(run_in_process)}

            def submit(task: Unit) -> Any:
                return remote[task.timeout is not None].options(**_needs(task, gpus)).remote(task)

            ended = 0
            running = {submit(task): (task, ended) for task in tasks}
            try:
                while running:
                    ready, _ = ray.wait(list(running), num_returns=1, timeout=LOOK_AT_NODES)
                    if not ready:
                        _refuse_without_nodes(ray)
                    for reference in ready:
                        task, ended_before = running.pop(reference)
                        rows = _rows(ray, reference, task, again=ended > ended_before)
                        if rows is None:
                            running[submit(task)] = (task, ended)
                            continue
                        ended += 1
                        yield task, rows
            finally:
                for reference in running:
                    ray.cancel(reference, force=True)


def _refuse_without_nodes(ray: Any) -> None:
    """Stop if no machine is left: Ray itself would wait for ever.

    The head is asked first whether it is there: Ray would retry for a minute, and then end this process.
    """
    try:
        _check_address(ray.get_runtime_context().gcs_address)
    except OSError as error:
        raise _cluster_is_gone() from error
    if not any(node["Alive"] for node in ray.nodes()):
        raise _cluster_is_gone()


def _cluster_is_gone() -> ConnectionError:
    return ConnectionError(
        "All machines of the Ray cluster have died, or this one has. All configurations that were published are safe: start a "
        "cluster, then repeat the same command."
    )


def _needs(unit: Unit, gpus: float) -> dict[str, Any]:
    """The resources that a task requests."""
    needs: dict[str, Any] = {"num_cpus": 1, "max_retries": RETRIES}
    if isinstance(unit.study, Study):
        device = {**unit.study.fixed, **unit.setting}.get("device", "auto")
        if gpus and device != "cpu" and algorithm(unit.study.algorithm).learner.values == "network":
            needs["num_gpus"] = GPU_SHARE
    return needs


def _rows(ray: Any, reference: Any, unit: Unit, again: bool) -> list[Row] | None:
    """The rows of a unit. If its worker died in every attempt, that is a failure of the unit, not of the study.

    If its machine died, that is a failure of the machine: then None if it may run `again`. It may while other units end, so that a
    run that takes its machines down is not repeated for ever.
    """
    try:
        return ray.get(reference)  # type: ignore[no-any-return]
    except ray.exceptions.LocalRayletDiedError as error:  # every further task would fail, too
        raise _cluster_is_gone() from error
    except ray.exceptions.NodeDiedError:
        return None if again else unit.failed(LOST)
    except ray.exceptions.RayError as error:
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        return unit.failed(f"{type(error).__name__}: {first.strip()}")


def _require_token() -> None:
    """Let a Ray that is started here serve only who knows a random token: its ports are open on all interfaces (SECURITY.md).

    Ray reads these variables when it is imported. If somebody has imported it before, or has chosen a mode, that stays.
    """
    if "ray" not in sys.modules and "RAY_AUTH_MODE" not in os.environ:
        os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN"] = "token", secrets.token_hex(32)


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
    """Connect to Ray, and disconnect at the end; a connection that existed before stays."""
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    with restored_handlers():  # Ray replaces the handler of SIGTERM, and does not restore it
        try:
            if address is None:
                with _path_for_workers():
                    cores = usable_cores()
                    ray.init(
                        "local", num_cpus=cores, include_dashboard=False, object_store_memory=OBJECT_STORE, **quiet
                    )
            else:
                _check_address(address)
                ray.init(address, **quiet)
        except (OSError, ValueError) as error:
            where = "on this machine" if address is None else f"at {address}"
            raise ConnectionError(f"Ray could not be reached {where}: {error}") from error
        try:
            yield
        finally:
            ray.shutdown()


def _check_address(address: str) -> None:
    """Fail fast if no machine answers at the address: Ray itself would wait for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        with socket.create_connection((host, int(port)), timeout=CONNECT_TIMEOUT):
            pass


@contextlib.contextmanager
def _path_for_workers() -> Iterator[None]:
    """Let the workers of a Ray started on this machine import what this process can. Elsewhere perstep must be installed."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
