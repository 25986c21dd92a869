"""The status of a NodeMetric, from the metrics of its node.

CPU is cut to whole milli-CPU and memory to whole bytes. What has no samples is left out, or empty where the
field is required. Source: Koordinator, `pkg/koordlet/statesinformer/impl/states_nodemetric.go`.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from koordpy.agent.interface.facts import COLD_MEMORY_MEASURED, GPU_DEVICES, NODE_NUMA_INFO, GPUDevice
from koordpy.agent.interface.metrics import Aggregation, Metrics, Points
from koordpy.agent.interface.states import PodMeta
from koordpy.agent.prediction.predictors import PredictionError, Predictor
from koordpy.agent.toolkit.collect_policy import CollectPolicy, MemoryPolicy
from koordpy.api import extension, qos
from koordpy.api.meta import format_time
from koordpy.api.quantity import Format, Quantity
from koordpy.api.resource_list import Quantities
from koordpy.api.slo.host_application import HostApplicationSpec
from koordpy.lib import duration

Document = dict[str, Any]

_AGGREGATIONS: Final = (
    Aggregation.AVG,
    Aggregation.P50,
    Aggregation.P90,
    Aggregation.P95,
    Aggregation.P99,
)
_COLD_START_SHARE: Final = 0.5
"""The share of a duration that samples must span."""

_OVERFLOW: Final = -(2**63)
"""What a number beyond 64 bits becomes in Go."""

_LONGEST_SECONDS: Final = 100 * 365 * 24 * 3600

_MEMORY_SUFFIXES: Final[dict[str, str]] = {
    MemoryPolicy.WITH_HOT_PAGE_CACHE: "memory_with_hot_page_usage",
    MemoryPolicy.WITH_PAGE_CACHE: "memory_usage_with_page_cache",
}


class StatusBuilder:
    """Builds the parts of one status; all of them look back from `now`."""

    def __init__(self, metrics: Metrics, policy: CollectPolicy, now: datetime) -> None:
        self._metrics, self._policy, self._now = metrics, policy, now
        self._start = now - timedelta(seconds=min(policy.aggregate_seconds, _LONGEST_SECONDS))
        self._gpus = metrics.fact(GPU_DEVICES) or ()
        hot_is_known = metrics.fact(COLD_MEMORY_MEASURED) or policy.memory != MemoryPolicy.WITH_HOT_PAGE_CACHE
        self._memory = (hot_is_known and _MEMORY_SUFFIXES.get(policy.memory)) or "memory_usage"

    def build(
        self,
        pods: list[PodMeta],
        host_applications: list[HostApplicationSpec],
        predictor: Predictor,
    ) -> Document:
        """Return the whole status. Pods with usage are added to the predictor, in the order given."""
        status: Document = {"updateTime": format_time(self._now), "nodeMetric": self.node_metric()}
        if reports := list(self._pod_reports(pods, predictor)):
            status["podsMetric"] = sorted(reports, key=lambda pod: (pod["namespace"], pod["name"]))
        if reports := list(self._application_reports(host_applications)):
            status["hostApplicationMetric"] = sorted(reports, key=lambda report: str(report["name"]))
        status["prodReclaimableMetric"] = {"resource": {}}
        with suppress(PredictionError):
            status["prodReclaimableMetric"]["resource"] = _resource_map(_texts(predictor.reclaimable()))
        with suppress(PredictionError):
            status["prodPeakMetric"] = {"resource": _resource_map(_texts(predictor.peak()))}
        return status

    def node_metric(self) -> Document:
        """Return the usage of the node and of its system."""
        node: Document = {
            "nodeUsage": self._node(self._start, None)[Aggregation.AVG],
            "systemUsage": self._system(self._start, None)[Aggregation.AVG],
            "aggregatedNodeUsages": [],
            "aggregatedSystemUsages": [],
        }
        for nanoseconds in self._policy.durations:
            start = self._now - timedelta(microseconds=nanoseconds // 1000)
            text = duration.format(nanoseconds)
            for field, usage in (
                ("aggregatedNodeUsages", self._node(start, nanoseconds)),
                ("aggregatedSystemUsages", self._system(start, nanoseconds)),
            ):
                named = {str(aggregation): found for aggregation, found in usage.items()}
                node[field].append({"usage": named, "duration": text})
        if usages := list(self._numa_usages()):
            node["numaUsages"] = usages
        return node

    # --- parts -----------------------------------------------------------------------------------

    def _node(self, start: datetime, nanoseconds: int | None) -> dict[Aggregation, Document]:
        """Return the usage of the node; with a duration, in all aggregations and unless it just started."""
        cpu = self._points("node_cpu_usage", start)
        memory = self._points(f"node_{self._memory}", start)
        found = _usage(cpu, memory, nanoseconds)
        if self._gpus and any(found.values()):
            windows = list(self._gpu_windows("node", start, {}))
            for aggregation, usage in found.items():
                if devices := [_device(gpu, core, used, aggregation) for gpu, core, used in windows]:
                    usage["devices"] = devices
        return found

    def _system(self, start: datetime, nanoseconds: int | None) -> dict[Aggregation, Document]:
        cpu = self._points("sys_cpu_usage", start)
        return _usage(cpu, self._points("sys_memory_usage", start), nanoseconds)

    def _numa_usages(self) -> Iterator[Document]:
        info = self._metrics.fact(NODE_NUMA_INFO)
        for node in sorted(each.node for each in info.nodes) if info is not None else ():
            properties = {"numa_node_id": str(node)}
            used, system = (
                _average(
                    self._points(f"{part}_numa_cpu_usage", self._start, properties),
                    self._points(f"{part}_numa_memory_usage", self._start, properties),
                )
                for part in ("node", "sys")
            )
            if used is not None:
                yield {"numaNodeID": node, "nodeUsage": used, "systemUsage": system or {}}

    def _pod_reports(self, pods: list[PodMeta], predictor: Predictor) -> Iterator[Document]:
        for meta in pods:
            pod = meta.pod
            properties = {"pod_uid": pod.metadata.uid}
            usage = self._measured("pod", properties)
            if usage is None:
                continue
            with suppress(PredictionError):
                predictor.add(pod)
            devices = [
                _device(gpu, core, used, Aggregation.AVG)
                for gpu, core, used in self._gpu_windows("pod", self._start, properties)
            ]
            if devices:
                usage["devices"] = devices
            report: Document = {
                "namespace": pod.metadata.namespace,
                "name": pod.metadata.name,
                "podUsage": usage,
            }
            yield _with_classes(report, qos.priority_class(pod), qos.qos_class(pod))

    def _application_reports(self, applications: list[HostApplicationSpec]) -> Iterator[Document]:
        for application in applications:
            usage = self._measured("host_application", {"host_app_name": application.name})
            if usage is not None:
                report: Document = {"name": application.name, "usage": usage}
                yield _with_classes(report, application.priority, application.qos)

    def _measured(self, level: str, properties: Mapping[str, str]) -> Document | None:
        cpu = self._points(f"{level}_cpu_usage", self._start, properties)
        return _average(cpu, self._points(f"{level}_{self._memory}", self._start, properties))

    def _gpu_windows(
        self, level: str, start: datetime, properties: Mapping[str, str]
    ) -> Iterator[tuple[GPUDevice, Points, Points]]:
        for gpu in self._gpus:
            named = {**properties, "gpu_minor": str(gpu.minor), "gpu_device_uuid": gpu.uuid}
            core = self._points(f"{level}_gpu_core_usage", start, named)
            used = self._points(f"{level}_gpu_memory_usage", start, named)
            if core.count and used.count:
                yield gpu, core, used

    def _points(self, kind: str, start: datetime, properties: Mapping[str, str] | None = None) -> Points:
        return self._metrics.points(kind, start, self._now, properties)


def _usage(cpu: Points, memory: Points, nanoseconds: int | None) -> dict[Aggregation, Document]:
    aggregations = _AGGREGATIONS if nanoseconds is not None else (Aggregation.AVG,)
    if not cpu.count or not memory.count or (nanoseconds is not None and _just_started(cpu, nanoseconds)):
        return {aggregation: {} for aggregation in aggregations}
    return {aggregation: _aggregated(cpu, memory, aggregation) for aggregation in aggregations}


def _just_started(cpu: Points, nanoseconds: int) -> bool:
    return cpu.span.total_seconds() < nanoseconds / duration.SECOND * _COLD_START_SHARE


def _average(cpu: Points, memory: Points) -> Document | None:
    return _aggregated(cpu, memory, Aggregation.AVG) if cpu.count and memory.count else None


def _aggregated(cpu: Points, memory: Points, aggregation: Aggregation) -> Document:
    return {
        "resources": {
            "cpu": str(Quantity.of_milli(_cut(cpu.value(aggregation) * 1000))),
            "memory": _bytes(memory.value(aggregation)),
        }
    }


def _device(gpu: GPUDevice, core: Points, used: Points, aggregation: Aggregation) -> Document:
    memory = used.value(aggregation)
    ratio = 100 * memory / gpu.memory_total if gpu.memory_total else float("inf")
    return {
        "id": gpu.uuid,
        "minor": gpu.minor,
        "type": "gpu",
        "health": False,
        "resources": {
            extension.GPU_CORE: str(Quantity.of(_cut(core.value(aggregation)))),
            extension.GPU_MEMORY: _bytes(memory),
            extension.GPU_MEMORY_RATIO: str(Quantity.of(_cut(ratio))),
        },
    }


def _with_classes(report: Document, priority: str, qos_class: str) -> Document:
    if priority:
        report["priority"] = str(priority)
    if qos_class:
        report["qos"] = str(qos_class)
    return report


def _resource_map(resources: Mapping[str, str]) -> Document:
    return {"resources": dict(resources)} if resources else {}


def _texts(amounts: Quantities) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _bytes(value: float) -> str:
    return str(Quantity.of(_cut(value), Format.BINARY_SI))


def _cut(value: float) -> int:
    return int(value) if abs(value) < -_OVERFLOW else _OVERFLOW
