"""Turns a scenario into a plan: which nodes join, which pods are created, and when.

Everything random about a workload is drawn here, from the scenario's seed, so that the same pods arrive at
the same times for every scheduler.
"""

import random
from pathlib import Path

from koordpy.api.config_model import ConfigError
from koordpy.embedded.kubelet.curves import Curve

from . import node_groups, pod_sources
from .planned import Plan, PlannedObject
from .scenario import Scenario, Usage, Workload
from .sources import read_source

_DEFAULT_USAGE: Usage = {"cpu": Curve(factor=0.5), "memory": Curve(factor=0.6)}


def of(scenario: Scenario, folder: Path) -> Plan:
    """Return the plan of a scenario; the files that it names are in `folder`. Raises ConfigError, OSError."""
    plan = Plan()
    for index, group in enumerate(scenario.nodes):
        with _Under(f"nodes[{index}]"):
            plan.nodes += node_groups.of_table(group, folder) if group.table else node_groups.of_group(group)
    names = [node.name for node in plan.nodes]
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ConfigError(f"nodes: there are several nodes {twice!r}")
    for index, objects in enumerate(scenario.objects):
        with _Under(f"objects[{index}]"):
            for document in read_source(objects, folder):
                plan.objects.append(PlannedObject(document, objects.at, objects.until))
    groups = _groups(scenario)
    for index, workload in enumerate(scenario.workloads):
        rng = random.Random(f"{scenario.seed}/{workload.name}")
        usage = {**_DEFAULT_USAGE, **scenario.usage.default, **workload.usage}
        with _Under(f"workloads[{index}]"):
            if workload.pods is not None:
                plan.pods += pod_sources.equal(workload, workload.pods, usage, rng, groups)
            elif workload.trace is not None:
                plan.pods += pod_sources.of_trace(workload, workload.trace, usage, folder)
            else:
                plan.deployments.append(pod_sources.of_deployment(workload, usage, folder))
    plan.pods.sort(key=lambda pod: pod.arrival)
    for number, pod in enumerate(plan.pods):
        pod.number = number
    if scenario.duration is None:
        for pod in plan.pods:
            if pod.duration is None:
                raise ConfigError(
                    f"duration: expected one, because pods of workload {pod.workload!r} run for ever"
                )
    return plan


def _groups(scenario: Scenario) -> dict[str, list[Workload]]:
    """Return the workloads of each group of gangs."""
    found: dict[str, list[Workload]] = {}
    for workload in scenario.workloads:
        if workload.pods is not None and workload.pods.gang is not None and workload.pods.gang.group:
            found.setdefault(workload.pods.gang.group, []).append(workload)
    return found


class _Under:
    """Prefixes errors with their place."""

    def __init__(self, place: str) -> None:
        self._place = place

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, ConfigError):
            raise error.under(self._place) from None
