"""The exact optimum of a tandem queue with up to a million states, beside mdpsolver and pymdptoolbox, each in its own process.

The controller decides about admission and the speed of the first server.

python benchmarks/run.py exact [--quick]

The peers have other requirements than perstep, so they live in an environment of their own, whose Python is named by PERSTEP_PEERS:
    python3 -m venv /tmp/peers && /tmp/peers/bin/pip install mdpsolver pymdptoolbox scipy
    PERSTEP_PEERS=/tmp/peers/bin/python python benchmarks/run.py exact
mdpsolver runs with each of the settings in MDPSOLVER_SETTINGS, and the fastest counts. Its value and policy iteration ("vi", "pi")
are slower here, and its other updates ("gs", "sor") do not work with the average criterion. pymdptoolbox has one method for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import console, table

CAPACITIES = (99, 199, 399, 999)  # 10,000, 40,000, 160,000 and 1,000,000 states
QUICK = (49, 99)
TOLERANCE = 1e-6  # of all three, on the span
REJECTION_COST = 60.0
PATIENCE = 300  # seconds, after which a tool is stopped
MEMORY = 8  # gigabytes, that no tool may exceed

OURS = """
from perstep.worlds import tandem_queue
tandem_queue(34, rejection_cost=rejection_cost).solve()  # compiles, once for all processes of this machine
begin = now()
mdp = tandem_queue(capacity, rejection_cost=rejection_cost)
built = now()
solution = mdp.solve(tolerance)
solved = now()
report(begin, built, solved, solution.interval[1] - solution.interval[0])
"""

MDPSOLVER = """
import mdpsolver
begin = now()
pointers, columns, chances, rewards = (model[key] for key in ("pointers", "columns", "chances", "rewards"))
num_states, num_actions = rewards.shape
def nested(flat):
    flat, ends = flat.tolist(), pointers.tolist()
    return [[flat[ends[s * num_actions + a]:ends[s * num_actions + a + 1]] for a in range(num_actions)] for s in range(num_states)]
mdl = mdpsolver.model()
mdl.mdp(rewards=rewards.tolist(), tranMatProbs=nested(chances), tranMatColumns=nested(columns))
built = now()
mdl.solve(criterion="average", tolerance=tolerance, **SETTINGS)
solved = now()
report(begin, built, solved, float("nan"))
"""

MDPSOLVER_SETTINGS = {
    "mpi": {"algorithm": "mpi", "parallel": False},
    "mpi, 20 sweeps": {"algorithm": "mpi", "parallel": False, "parIterLim": 20},
    "mpi, parallel": {"algorithm": "mpi", "parallel": True},
}

TOOLBOX = """
from mdptoolbox.mdp import RelativeValueIteration
from scipy.sparse import csr_matrix
begin = now()
rewards = model["rewards"]
num_states, num_actions = rewards.shape
whole = csr_matrix((model["chances"], model["columns"], model["pointers"]), shape=(num_states * num_actions, num_states))
matrices = [whole[a::num_actions] for a in range(num_actions)]
solver = RelativeValueIteration(matrices, rewards, epsilon=tolerance, max_iter=10**7)
built = now()
solver.run()
solved = now()
report(begin, built, solved, float("nan"))
"""

COMMON = """
import json, resource, sys, time
import numpy as np
capacity, tolerance, path, rejection_cost = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], float(sys.argv[5])
resource.setrlimit(resource.RLIMIT_DATA, (int(float(sys.argv[4]) * 1e9),) * 2)
model = np.load(path)
def now():
    return time.perf_counter(), time.process_time()
def report(begin, built, solved, width):
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print("RESULT", json.dumps([solved[0] - begin[0], solved[0] - built[0], solved[1] - begin[1], memory, width]))
"""

Measured = list[float]
"""Seconds to build and solve, seconds to solve, processor seconds of both, gigabytes, and the width of what is proven."""


def solved_by(python: str, code: str, capacity: int, path: Path) -> Measured | str:
    """What was measured, or why the tool did not finish."""
    numbers = [str(capacity), str(TOLERANCE), str(path), str(MEMORY), str(REJECTION_COST)]
    command = [python, "-W", "ignore", "-c", COMMON + code, *numbers]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"not in {PATIENCE} s"
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT")), None)
    if line is None:
        out_of_memory = any(word in done.stderr for word in ("MemoryError", "bad_alloc"))
        return f"not in {MEMORY} GB" if out_of_memory else f"failed: {done.stderr[-200:]}"
    return list(json.loads(line.removeprefix("RESULT")))


def tools(peers: str | None) -> dict[str, tuple[str, str]]:
    """A Python and the code that it runs, for each tool."""
    ours = {"perstep": (sys.executable, OURS)}
    if peers is None:
        return ours
    theirs = {
        f"mdpsolver, {name}": (peers, f"SETTINGS = {settings}\n{MDPSOLVER}")
        for name, settings in MDPSOLVER_SETTINGS.items()
    }
    return ours | theirs | {"pymdptoolbox": (peers, TOOLBOX)}


def main(quick: bool = False) -> None:
    import numpy as np

    from perstep.mdp.outcomes import expected_rewards, transition_matrix
    from perstep.worlds import tandem_queue

    peers = os.environ.get("PERSTEP_PEERS")
    if peers is None:
        console.print("mdpsolver and pymdptoolbox are left out: PERSTEP_PEERS does not name a Python that has them")
    left = tools(peers)
    rows = []
    for capacity in QUICK if quick else CAPACITIES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.npz"
            mdp = tandem_queue(capacity, rejection_cost=REJECTION_COST)
            matrix = transition_matrix(mdp.outcomes)
            np.savez(
                path, pointers=matrix.indptr, columns=matrix.indices, chances=matrix.data, rewards=expected_rewards(mdp.outcomes)
            )  # fmt: skip
            states = f"{mdp.num_states:,}"
            del mdp, matrix
            for tool, (python, code) in list(left.items()):
                found = solved_by(python, code, capacity, path)
                if isinstance(found, str):
                    rows.append((states, tool, found, "", "", "", ""))
                    if tool != "perstep":
                        del left[tool]  # nor with more states
                else:
                    whole, solve, processor, memory, width = found
                    proof = f"{width:.0e}" if width == width else "–"
                    rows.append(
                        (states, tool, f"{whole:.2f}", f"{solve:.2f}", f"{processor:.2f}", f"{memory:.2f}", proof)
                    )
                console.print(*rows[-1])  # the largest take minutes
    table(
        f"Tandem queue with admission, tolerance {TOLERANCE:g}",
        ("states", "", "build + solve, s", "solve, s", "processor, s", "GB", "proven"),
        rows,
    )
