"""The experiment of the paper about Fragmentation Gradient Descent, beside what its authors report.

`python -m bench.fgd --nodes FILE --trace FILE --policy FGD --seed 42` does one run and ends with one JSON
line. `--policy` and `--seed` may be given several times (`--policy all`, `--seed 42-51`): a line for each run
then, and one with the medians of each policy at the end; `--jobs N` runs on N processors, by default on all.
"""

import argparse
import csv
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.report import Result

ROOT = Path(__file__).parents[1]
# The package need not be installed.
sys.path.insert(0, str(ROOT / "examples" / "koordpy-plugin-fgd" / "src"))

from koordpy_fgd.fgd import FGD  # noqa: E402
from koordpy_fgd.policies import BestFit, DotProd, GpuClustering, GpuPacking, Random  # noqa: E402

from bench.fgd_picture import picture  # noqa: E402
from koordpy.api.config_model import ConfigError  # noqa: E402
from koordpy.scheduling.interface import Plugin  # noqa: E402
from koordpy.simulation.gpus import sweep  # noqa: E402
from koordpy.simulation.gpus.experiment import Run  # noqa: E402
from koordpy.simulation.gpus.sweep import Task  # noqa: E402

SAMPLES = Path(os.environ.get("KOORDPY_SAMPLES", ROOT.parent / "shared" / "samples"))
PAPER = Path(__file__).parent / "fgd_paper"
PICTURE = ROOT / "docs" / "fgd.svg"
NODES = "nodes.csv.gz"
TRACES = {
    "default": "pods.csv.gz",
    "gpushare100": "traces/gpushare100.csv.gz",
    "gpuspec33": "traces/gpuspec33.csv.gz",
    "multigpu50": "traces/multigpu50.csv.gz",
}
"""The traces among the samples, by the paper's names."""
MORE_TRACES = os.environ.get("KOORDPY_FGD_TRACES")
"""The folder of all traces of the paper, `data/csv` of its authors' simulator; without it: the samples."""
POLICIES: Mapping[str, type[Plugin]] = {
    plugin.name: plugin for plugin in (Random, DotProd, GpuClustering, GpuPacking, BestFit, FGD)
}
SEED = 42
SEEDS = 10
LOAD, TYPICAL = 1.3, 0.95
UNALLOCATED_AT, RATE_AT = 100, 90


def run(rounds: int = SEEDS) -> Result:
    """Run all policies on all traces with so many seeds. Raises FileNotFoundError without the traces."""
    data = SAMPLES / "openb"
    if not (data / "traces").is_dir():
        raise FileNotFoundError(f"no traces at {data}; set KOORDPY_SAMPLES to the folder of samples")
    traces = {name: data / file for name, file in TRACES.items()}
    result = Result.begin(
        "fgd",
        unallocated="unallocated GPUs at 100 % load, %",
        paper="the paper's",
        difference="difference of the same seed, points",
        rate="fragment rate at 90 % load, %",
        paper_rate="the paper's",
        seconds="a run, CPU s",
    )
    rates, of_seeds = _paper_rates(), _paper_seeds()
    if MORE_TRACES:
        others = dict.fromkeys(trace for trace, _ in rates if trace not in traces)
        traces |= {trace: Path(MORE_TRACES, f"openb_pod_list_{trace}.csv") for trace in others}
    curves: dict[str, list[Run]] = {}
    for seed in range(SEED, SEED + rounds):
        for trace, file in traces.items():
            for task in _tasks(data / NODES, file, list(POLICIES), [seed]):
                row = result.row(f"{trace}: {task.name}")
                if not row.cells:
                    row.add(paper_rate=rates[trace, task.name])
                began = time.process_time()
                found = sweep.run(task)
                unallocated = found.curves.unallocated(UNALLOCATED_AT)
                reported = of_seeds.get((trace, task.name, seed))
                if reported is not None:
                    row.add(paper=reported, difference=unallocated - reported)
                row.add(
                    unallocated=unallocated,
                    rate=found.curves.fragment_rate[RATE_AT],
                    seconds=time.process_time() - began,
                )
                if trace == "default":
                    curves.setdefault(task.name, []).append(found)
    PICTURE.write_text(picture(curves, PAPER / "curves_default.csv"), encoding="utf-8")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench.fgd", description=__doc__)
    parser.add_argument("--nodes", type=Path, default=SAMPLES / "openb" / NODES, help="a table of nodes")
    parser.add_argument("--trace", type=Path, required=True, help="a table of pods")
    parser.add_argument("--policy", action="append", choices=[*POLICIES, "all"], required=True)
    parser.add_argument("--seed", action="append", type=_seeds, help="a seed, or some: 42-51 (default: 42)")
    parser.add_argument("--jobs", type=int, default=sweep.all_cores(), help="processors (default: all)")
    given = parser.parse_args(arguments)
    policies = list(POLICIES) if "all" in given.policy else list(dict.fromkeys(given.policy))
    seeds = list(dict.fromkeys(seed for some in given.seed or [[SEED]] for seed in some))
    try:
        return _run(_tasks(given.nodes, given.trace, policies, seeds), given.jobs, policies, len(seeds))
    except (ConfigError, OSError) as error:
        print(f"bench.fgd: {error}", file=sys.stderr)
        return 2


def _run(tasks: Sequence[Task], jobs: int, policies: Sequence[str], seeds: int) -> int:
    """Do the runs, and print their results; the last line has that of the only run, or the medians."""

    def show(_: int, done: Run) -> None:
        print(
            json.dumps({"policy": done.policy, "seed": done.seed, "pods": done.pods, **_found(done)}),
            flush=True,
        )

    runs = sweep.run_all(tasks, jobs, show if len(tasks) > 1 else None)
    if len(runs) == 1:
        print(json.dumps(_found(runs[0])))
    else:
        medians = {}
        for policy in policies:
            values = [_found(done) for done in runs if done.policy == policy]
            medians[policy] = {key: round(statistics.median(v[key] for v in values), 4) for key in values[0]}
        print(json.dumps({"medians": medians, "seeds": seeds}))
    return 0


def _found(done: Run) -> dict[str, float]:
    return {
        "unallocated_gpu_pct_at_100": round(done.curves.unallocated(UNALLOCATED_AT), 4),
        "fragment_rate_pct_at_90": round(done.curves.fragment_rate[RATE_AT], 4),
    }


def _tasks(nodes: Path, trace: Path, policies: Sequence[str], seeds: Sequence[int]) -> list[Task]:
    return [
        Task(nodes, trace, LOAD, TYPICAL, policy, POLICIES[policy], seed)
        for seed in seeds
        for policy in policies
    ]


def _seeds(text: str) -> list[int]:
    first, _, last = text.partition("-")
    found = list(range(int(first), int(last or first) + 1))
    if not found:
        raise ValueError(f"no seeds in {text!r}")
    return found


def _paper_rates() -> dict[tuple[str, str], float]:
    """The authors' medians of the fragment rate at 90 % load, by trace and policy."""
    with (PAPER / "medians.csv").open(newline="") as file:
        return {
            (row["trace"], row["policy"]): float(row["fragment_rate_pct_at_90"])
            for row in csv.DictReader(file)
        }


def _paper_seeds() -> dict[tuple[str, str, int], float]:
    """The authors' unallocated GPUs at 100 % load, by trace, policy and seed."""
    with (PAPER / "seeds.csv").open(newline="") as file:
        return {
            (row["trace"], row["policy"], int(row["seed"])): float(row["unallocated_gpu_pct_at_100"])
            for row in csv.DictReader(file)
        }


if __name__ == "__main__":
    sys.exit(main())
