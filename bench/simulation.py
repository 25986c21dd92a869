"""A whole production trace through the simulator: how long 149 days take, and what that needs.

Each round is a process of its own, so that the peak of its memory is its own. `python -m bench.simulation`
runs one round and prints one JSON object.
"""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

from bench.report import Result

SCENARIO = Path(__file__).parent / "scenarios" / "openb.yaml"
SAMPLES = Path(os.environ.get("KOORDPY_SAMPLES", Path(__file__).parents[2] / "shared" / "samples"))
ROUNDS = 2


def run(rounds: int = ROUNDS) -> Result:
    """Run the trace some times. Raises FileNotFoundError where it is not there."""
    data = SAMPLES / "openb"
    if not data.is_dir():
        raise FileNotFoundError(f"the trace is not at {data}; set KOORDPY_SAMPLES to the folder of samples")
    result = Result.begin(
        "simulation",
        wall="time, s",
        cpu="CPU time, s",
        pods="pods/s",
        faster="times real time",
        memory="peak memory, MiB",
        reports="usage reports",
        bound="pods given a node",
    )
    row = result.row("openb: 8,152 pods, 1,523 nodes, 149 days", "goal: 3 minutes at most")
    for _ in range(rounds):
        done = subprocess.run(
            [sys.executable, "-m", "bench.simulation", str(data)], stdout=subprocess.PIPE, check=True
        )
        row.add(**json.loads(done.stdout))
    return result


def simulate(data: Path) -> dict[str, float]:
    """Run the trace once, in this process."""
    from koordpy.simulation import scenario, simulation

    began, busy = time.perf_counter(), time.process_time()
    told = scenario.load(SCENARIO)
    found = simulation.simulate(told, told.schedulers[0], data)
    wall = time.perf_counter() - began
    return {
        "wall": wall,
        "cpu": time.process_time() - busy,
        "pods": found.pods.created / wall,
        "faster": found.simulated_seconds / wall,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "reports": found.reports,
        "bound": found.pods.bound,
    }


if __name__ == "__main__":
    print(json.dumps(simulate(Path(sys.argv[1]))))
