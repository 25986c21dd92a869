"""Estimates what colocation would give on a recorded cluster, and what it would cost.

The recording is simulated twice with the SLO controllers, once to see the batch resources that its nodes
would offer, once with best-effort pods that use a share of them. Nothing is known of other days than the
recorded ones: an estimate is as good as they resemble each other.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from koordpy.api import quantity
from koordpy.api.config_model import ConfigError
from koordpy.api.extension import BATCH_CPU, BATCH_MEMORY, LABEL_POD_QOS
from koordpy.embedded.kubelet.curves import Curve

from . import plan as planning
from . import slo_controllers
from .result import Colocation, Result, Spread
from .scenario import Arrivals, Pods, Scenario, Workload
from .setup import AgentSetup, SchedulerSetup, Source
from .simulation import Progress, simulate
from .sources import read_source

Document = dict[str, Any]

NAME: Final = slo_controllers.CONFIG
NAMESPACE: Final = "koordinator-system"
WORKLOAD: Final = "colocation-estimate"

_DEFAULT_CONFIG: Final = {
    "colocation-config": '{"enable": true}',
    "resource-threshold-config": '{"clusterStrategy": {"enable": true}}',
}

_DAY: Final = 86400.0


@dataclass(frozen=True)
class BestEffortPods:
    """The pods that would use batch resources: equal ones, which come evenly over the time."""

    cpu: str = "1"
    memory: str = "2Gi"
    seconds: float = 3600.0
    """How long each runs."""
    share: float = 0.8
    """What they request together, of the batch CPU that is offered on average."""

    def workload(self, seconds: float, offered: float) -> Workload:
        """Return the workload for a time in seconds in which so many cores are offered on average."""
        cores = quantity.milli_value(self.cpu) / 1000
        wanted = self.share * offered * seconds / (cores * self.seconds)
        count = max(math.floor(wanted), 1)
        resources = {
            BATCH_CPU: str(quantity.milli_value(self.cpu)),
            BATCH_MEMORY: str(quantity.value(self.memory)),
        }
        container = {
            "name": "main",
            "image": "best-effort",
            "resources": {"requests": resources, "limits": resources},
        }
        template = {
            "metadata": {"labels": {LABEL_POD_QOS: "BE"}},
            "spec": {"priorityClassName": "koord-batch", "containers": [container]},
        }
        return Workload(
            name=WORKLOAD,
            pods=Pods(
                count=count,
                arrivals=Arrivals(every=seconds / count),
                duration=self.seconds,
                template=template,
            ),
            usage={"cpu": Curve(amount=self.cpu), "memory": Curve(amount=self.memory)},
        )


class Estimate(msgspec.Struct, rename="camel"):
    """What colocation would give and cost. Amounts by day are means over the recorded time."""

    recording: str
    recorded_seconds: float
    nodes: int
    offered: Spread
    """Batch cores of all nodes over time, without best-effort pods."""
    offered_least: float
    """The fewest at any time."""
    offered_core_hours_per_day: float
    allocatable_cores: float
    """Of all nodes."""
    best_effort: Colocation | None = None
    """With the best-effort pods."""
    best_effort_pods: int = 0
    """Of these, created."""
    best_effort_started: int = 0
    """Of these, given a node."""
    evicted_per_day: float = 0.0
    problems: list[str] = []


def estimate(
    recording: Scenario,
    folder: Path,
    *,
    config: Source | None = None,
    pods: BestEffortPods | None = None,
    gates: dict[str, bool] | None = None,
    progress: Progress | None = None,
) -> Estimate:
    """Return what colocation would give on a recorded cluster; files of the recording are in `folder`.

    `config` is the ConfigMap slo-controller-config, or a file that has it; without one colocation is
    enabled with Koordinator's defaults. Without `pods` only what nodes offer is estimated. `gates` are those
    of node agents. Raises ConfigError for a recording or a configuration that cannot run.
    """
    colocated = setup(folder, config=config, gates=gates)
    alone = recording.model_copy(update={"schedulers": (colocated,)})
    offered = simulate(alone, colocated, folder, progress=progress)
    capacity = sum(node.capacity[0] for node in planning.of(recording, folder).nodes) / 1000
    found = _offers(recording, capacity, offered)
    if pods is not None and found.offered.max > 0:
        with_pods = alone.model_copy(
            update={
                "workloads": (
                    *recording.workloads,
                    pods.workload(offered.simulated_seconds, found.offered.mean),
                )
            }
        )
        _add(found, simulate(with_pods, colocated, folder, progress=progress))
    return found


def setup(
    folder: Path, *, config: Source | None = None, gates: dict[str, bool] | None = None
) -> SchedulerSetup:
    """Return the setup with which estimates simulate; arguments as of `estimate`. Raises ConfigError."""
    return SchedulerSetup(
        name="colocation",
        koordpy=False,
        webhooks=False,
        controllers=slo_controllers.CONTROLLERS,
        objects=(Source(manifest=_configuration(config, folder)),),
        agent=AgentSetup(feature_gates=gates or {}),
    )


def _configuration(source: Source | None, folder: Path) -> Document:
    metadata = {"name": NAME, "namespace": NAMESPACE}
    if source is None:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": _DEFAULT_CONFIG}
    for document in read_source(source, folder):
        if document["kind"] == "ConfigMap" and (document.get("metadata") or {}).get("name") == NAME:
            return {**document, "metadata": metadata}
    raise ConfigError(f"{source.file or 'config'}: expected a ConfigMap {NAME}")


def _offers(recording: Scenario, cores_of_nodes: float, result: Result) -> Estimate:
    series, colocation = result.series, result.colocation
    # Nodes offer nothing until their first NodeMetric is processed, which in a cluster that runs is long ago.
    first = next((i for i, cores in enumerate(series.batch_cores) if cores > 0), 0)
    cores = series.batch_cores[first:]
    offered = Spread.of(cores)
    return Estimate(
        recording=recording.name,
        recorded_seconds=result.simulated_seconds,
        nodes=result.nodes,
        offered=offered,
        offered_least=min(cores, default=0.0),
        offered_core_hours_per_day=offered.mean * 24.0,
        allocatable_cores=cores_of_nodes,
        best_effort=colocation,
        problems=result.problems,
    )


def _add(found: Estimate, result: Result) -> None:
    placed = [pod for pod in result.placements if pod.workload == WORKLOAD]
    found.best_effort = result.colocation
    found.best_effort_pods = len(placed)
    found.best_effort_started = sum(pod.bound is not None for pod in placed)
    if result.colocation is not None:
        found.evicted_per_day = result.colocation.evicted * _DAY / result.simulated_seconds
    found.problems = [*found.problems, *(p for p in result.problems if p not in found.problems)]
