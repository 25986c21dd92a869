"""Tables of the runs of a scenario: by policy and arrived load, and every run."""

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from .experiment import Run
from .scenario import GPUFillScenario

if TYPE_CHECKING:
    from rich.console import Console

LOADS = (50, 60, 70, 80, 90, 95, 100, 110, 120, 130)
"""Percent of all GPUs that the tables show."""

_RUNS = ("seed", "pods", "on no node", "unallocated at 100, %", "fragment rate at 90, %")

Table = tuple[str, list[str], list[tuple[str, list[str]]]]
"""Title, headings of the columns, and rows: a name, and a value for each column."""


def document(told: GPUFillScenario, runs: Sequence[Run]) -> dict[str, Any]:
    """Return all runs with their curves, and their medians by policy."""
    return {
        "scenario": told.name,
        "medians": {
            policy: {
                "unallocatedGPUPercent": _by_load(of, "allocated", lambda value: 100 - value),
                "fragmentRatePercent": _by_load(of, "fragment_rate"),
            }
            for policy, of in by_policy(runs).items()
        },
        "runs": [msgspec.to_builtins(run, str_keys=True) for run in runs],
    }


def by_policy(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return the runs of each policy, in their order."""
    found: dict[str, list[Run]] = {}
    for run in runs:
        found.setdefault(run.policy, []).append(run)
    return found


def heading(told: GPUFillScenario) -> str:
    """Return what the tables show."""
    seeds = f"{len(told.seeds)} seeds" if len(told.seeds) > 1 else f"seed {told.seeds[0]}"
    return f"medians of {seeds}, by arrived load in percent of all GPUs"


def tables(told: GPUFillScenario, runs: Sequence[Run]) -> list[Table]:
    """Return the tables: each with its title, the headings of its columns, and rows of a name and values."""
    policies = by_policy(runs)
    loads = [load for load in LOADS if all(load in run.curves.allocated for run in runs)]
    found: list[Table] = []
    for title, curve, reverse in (
        ("Allocated GPUs, %", "allocated", False),
        ("Unallocated GPUs, %", "allocated", True),
        ("Fragment rate, % of the unallocated GPUs", "fragment_rate", False),
    ):
        rows = []
        for policy, of in policies.items():
            values = (median(of, curve, load) for load in loads)
            rows.append((policy, [f"{100 - value if reverse else value:.2f}" for value in values]))
        found.append((title, [str(load) for load in loads], rows))
    return [*found, ("Runs", list(_RUNS), [_row(run) for run in runs])]


def show(to: "Console", told: GPUFillScenario, runs: Sequence[Run]) -> None:
    """Print the tables."""
    from rich.table import Table as Printed

    to.print(f"[bold]{told.name}[/bold]: {heading(told)}")
    for title, columns, rows in tables(told, runs):
        table = Printed(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
        table.add_column("")
        for column in columns:
            table.add_column(column, justify="right")
        for name, values in rows:
            table.add_row(name, *values)
        to.print()
        to.print(table)


def _row(run: Run) -> tuple[str, list[str]]:
    unallocated = 100 - run.curves.allocated[100] if 100 in run.curves.allocated else None
    values = (unallocated, run.curves.fragment_rate.get(90))
    cells = ["" if value is None else f"{value:.2f}" for value in values]
    return run.policy, [str(run.seed), f"{run.pods:,}", f"{run.unplaced:,}", *cells]


def median(runs: Sequence[Run], curve: str, load: int) -> float:
    """Return the median of a curve over runs at a load that all have."""
    middle: float = statistics.median(getattr(run.curves, curve)[load] for run in runs)
    return middle


def loads_of(runs: Sequence[Run]) -> list[int]:
    """Return the loads that all runs have, ascending."""
    return sorted(set.intersection(*(set(run.curves.allocated) for run in runs)))


def _by_load(runs: Sequence[Run], curve: str, of: Any = lambda value: value) -> dict[str, float]:
    return {str(load): round(of(median(runs, curve, load)), 3) for load in loads_of(runs)}
