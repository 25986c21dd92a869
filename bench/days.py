"""Days that resemble each other: the same services with other levels, peaks, arrivals and noise."""

import random
from typing import Any

from koordpy.embedded.kubelet.curves import Curve
from koordpy.simulation.scenario import Scenario, Workload

LEVEL = 0.03
"""By how much of itself the level of a service's CPU usage differs between days, at most."""
AMPLITUDE = 0.1
"""The same of the amplitude of its day."""
PEAK = 3600.0
"""By how many seconds its peaks come earlier or later, at most."""
MEMORY = 0.02
"""The same as `LEVEL` of memory."""


def another_day(day: Scenario, number: int, *, level: float = 1.0) -> Scenario:
    """Return another day of the same cluster; `level` scales the CPU usage of all services."""
    rng = random.Random(f"{day.seed}/{number}")
    workloads = tuple(_another(workload, rng, level) for workload in day.workloads)
    return day.model_copy(update={"seed": day.seed + 1000 * number, "workloads": workloads})


def _another(workload: Workload, rng: random.Random, level: float) -> Workload:
    usage = dict(workload.usage)
    if "cpu" in usage:
        usage["cpu"] = _curve(usage["cpu"], rng, level * rng.uniform(1 - LEVEL, 1 + LEVEL))
    if "memory" in usage:
        usage["memory"] = _curve(usage["memory"], rng, rng.uniform(1 - MEMORY, 1 + MEMORY))
    changes: dict[str, Any] = {"usage": usage}
    if workload.pods is not None:
        count = round(workload.pods.count * rng.uniform(0.95, 1.05))
        changes["pods"] = workload.pods.model_copy(update={"count": count})
    return workload.model_copy(update=changes)


def _curve(curve: Curve, rng: random.Random, level: float) -> Curve:
    later = rng.uniform(-PEAK, PEAK)
    steps = tuple(step.model_copy(update={"at": max(step.at + later, 0.0)}) for step in curve.steps)
    changes: dict[str, Any] = {
        "factor": None if curve.factor is None else curve.factor * level,
        "amplitude": min(curve.amplitude * rng.uniform(1 - AMPLITUDE, 1 + AMPLITUDE), 1.0),
        "peak_at": max(curve.peak_at + later, 0.0),
        "steps": steps,
    }
    return curve.model_copy(update=changes)
