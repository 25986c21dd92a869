"""Which CPUs of a node a pod gets."""

from typing import Any

from koordpy_plugins.scheduling.nodenumaresource.cpus.preferred import (
    AllocatedCPU,
    NotEnoughCPUs,
    take_preferred,
)
from koordpy_plugins.scheduling.nodenumaresource.topology.cpu_topology import CPU, CPUTopology


def run(case: dict[str, Any], tag: str | None) -> object:
    try:
        taken = take_preferred(
            CPUTopology(CPU.of(*row) for row in case["cpus"]),
            case["maxRef"],
            frozenset(case["avail"] or ()),
            {cpu: AllocatedCPU(count, exclusive) for cpu, count, exclusive in case["alloc"] or ()},
            frozenset(case["pref"] or ()),
            case["need"],
            case["bind"],
            case["excl"],
            case["strat"],
        )
    except NotEnoughCPUs as error:
        return {"cpus": None, "err": str(error)}
    return {"cpus": sorted(taken), "err": ""}


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    return bool(ours["err"] == expected["err"] and (ours["cpus"] or []) == (expected["cpus"] or []))
