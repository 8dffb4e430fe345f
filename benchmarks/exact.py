"""The exact optimum of a tandem queue with up to a million states, beside mdpsolver and pymdptoolbox, each in its own process.

python benchmarks/run.py exact [--quick]

The peers have other requirements than perstep, so they live in an environment of their own, whose Python is named by PERSTEP_PEERS:
    python3 -m venv /tmp/peers && /tmp/peers/bin/pip install mdpsolver pymdptoolbox scipy
    PERSTEP_PEERS=/tmp/peers/bin/python python benchmarks/run.py exact
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
PATIENCE = 900  # seconds, after which a tool is stopped
MEMORY = 8  # gigabytes, that no tool may exceed

OURS = """
from perstep.environments import tandem_queue
tandem_queue(34).solve()  # compiles, once for all processes of this machine
begin = time.perf_counter()
mdp = tandem_queue(capacity)
built = time.perf_counter()
solution = mdp.solve(tolerance)
solved = time.perf_counter()
report(built - begin, solved - built, solution.interval[1] - solution.interval[0])
"""

MDPSOLVER = """
import mdpsolver
begin = time.perf_counter()
pointers, columns, chances, rewards = (model[key] for key in ("pointers", "columns", "chances", "rewards"))
num_states, num_actions = rewards.shape
def nested(flat):
    flat, ends = flat.tolist(), pointers.tolist()
    return [[flat[ends[s * num_actions + a]:ends[s * num_actions + a + 1]] for a in range(num_actions)] for s in range(num_states)]
mdl = mdpsolver.model()
mdl.mdp(rewards=rewards.tolist(), tranMatProbs=nested(chances), tranMatColumns=nested(columns))
built = time.perf_counter()
mdl.solve(algorithm="mpi", criterion="average", tolerance=tolerance)
solved = time.perf_counter()
report(built - begin, solved - built, float("nan"))
"""

TOOLBOX = """
from mdptoolbox.mdp import RelativeValueIteration
from scipy.sparse import csr_matrix
begin = time.perf_counter()
rewards = model["rewards"]
num_states, num_actions = rewards.shape
whole = csr_matrix((model["chances"], model["columns"], model["pointers"]), shape=(num_states * num_actions, num_states))
matrices = [whole[a::num_actions] for a in range(num_actions)]
solver = RelativeValueIteration(matrices, rewards, epsilon=tolerance, max_iter=10**7)
built = time.perf_counter()
solver.run()
solved = time.perf_counter()
report(built - begin, solved - built, float("nan"))
"""

COMMON = """
import json, resource, sys, time
import numpy as np
capacity, tolerance, path = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
resource.setrlimit(resource.RLIMIT_DATA, (int(float(sys.argv[4]) * 1e9),) * 2)
model = np.load(path)
def report(build, solve, width):
    used = resource.getrusage(resource.RUSAGE_SELF)
    print("RESULT", json.dumps([build, solve, used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6, width]))
"""


def solved_by(python: str, code: str, capacity: int, path: Path) -> list[float] | str:
    """Seconds to build and to solve, processor seconds, gigabytes and the width of what is proven; or why it did not finish."""
    command = [python, "-W", "ignore", "-c", COMMON + code, str(capacity), str(TOLERANCE), str(path), str(MEMORY)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return f"not in {PATIENCE} s"
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT")), None)
    if line is None:
        return f"not in {MEMORY} GB" if "MemoryError" in done.stderr else f"failed: {done.stderr[-200:]}"
    return list(json.loads(line.removeprefix("RESULT")))


def main(quick: bool = False) -> None:
    import numpy as np

    from perstep.environments import tandem_queue
    from perstep.environments.outcomes import expected_rewards, transition_matrix

    peers = os.environ.get("PERSTEP_PEERS")
    if peers is None:
        console.print("mdpsolver and pymdptoolbox are left out: PERSTEP_PEERS does not name a Python that has them")
    tools = {"perstep": (sys.executable, OURS)}
    if peers:
        tools |= {"mdpsolver": (peers, MDPSOLVER), "pymdptoolbox": (peers, TOOLBOX)}
    rows = []
    for capacity in QUICK if quick else CAPACITIES:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.npz"
            mdp = tandem_queue(capacity)
            matrix = transition_matrix(mdp.outcomes)
            np.savez(
                path, pointers=matrix.indptr, columns=matrix.indices, chances=matrix.data, rewards=expected_rewards(mdp.outcomes)
            )  # fmt: skip
            num_states = mdp.num_states
            del mdp, matrix
            for tool, (python, code) in list(tools.items()):
                found = solved_by(python, code, capacity, path)
                if isinstance(found, str):
                    rows.append((f"{num_states:,}", tool, found, "", "", "", ""))
                    if tool != "perstep":
                        del tools[tool]  # nor with more states
                    continue
                build, solve, processor, memory, width = found
                proof = f"{width:.0e}" if width == width else "–"
                rows.append(
                    (
                        f"{num_states:,}",
                        tool,
                        f"{build + solve:.2f}",
                        f"{solve:.2f}",
                        f"{processor:.1f}",
                        f"{memory:.2f}",
                        proof,
                    )
                )
    table(
        f"Tandem queue, tolerance {TOLERANCE:g}",
        ("states", "", "build + solve, s", "solve, s", "processor, s", "GB", "proven"),
        rows,
    )
