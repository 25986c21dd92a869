"""Records a live cluster as a scenario.

A recording starts with the current state: bound pods keep their nodes. Pods created during the recording are
arrivals; deleted ones get a duration. Usage is read from NodeMetrics, pod by pod; the remainder of a node's
usage is the node's own.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import yaml

from koordpy.api import quantity
from koordpy.api.core import Namespace, Node, Pod, PriorityClass
from koordpy.api.koordinator import ClusterColocationProfile, NodeMetric, ResourceMap
from koordpy.api.meta import KubeObject, format_time, parse_time
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError
from koordpy.cluster.informers import Informers
from koordpy.embedded.kubelet.usage import MEASURED
from koordpy.lib import duration
from koordpy.lib.clock import Clock, SystemClock

from .masking import Masking
from .scenario import KIND
from .setup import API_VERSION

Document = dict[str, Any]

_CONFIGURATION: Final[tuple[type[KubeObject], ...]] = (
    Namespace,
    PriorityClass,
    ClusterColocationProfile,
    Reservation,
)
_ENDED: Final = ("Succeeded", "Failed")
_LOOKED = 1.0


class Recording:
    """The recorded pods by UID with their times, nodes, and usage over time."""

    def __init__(self) -> None:
        self.pods: dict[str, Document] = {}
        self.nodes: dict[str, Document] = {}
        self.objects: list[Document] = []
        self.seconds = 0.0
        self.start = ""


class Recorder:
    """Records through a client, with names as `masking` gives them."""

    def __init__(
        self,
        client: Client,
        masking: Masking,
        *,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client, self._masking, self._sleep = client, masking, sleep
        self._clock = clock or SystemClock()
        self._cluster = Cluster(self._clock)
        self._recording = Recording()
        self._began = 0.0

    async def record(
        self,
        seconds: float,
        *,
        stopping: asyncio.Event | None = None,
        progress: Callable[[float, str], None] | None = None,
    ) -> Recording:
        """Record the current state, and changes for some time (0: none) or until `stopping`. Raises ApiError.

        `progress` is called with the share of the time, and what was recorded so far.
        """
        recording, cluster = self._recording, self._cluster
        pods, metrics = cluster.store(Pod), cluster.store(NodeMetric, optional=True)
        nodes = cluster.store(Node)
        documents = await self._documents(Pod)
        for type_ in _CONFIGURATION:
            with suppress(ApiError):  # a cluster without the CRD has none of them
                recording.objects += [
                    self._masking.trimmed(document) for document in (await self._documents(type_)).values()
                ]
        self._began = self._clock.monotonic()
        recording.start = format_time(self._clock.now())
        async with Informers(cluster, self._client) as informers:
            await informers.wait_synced(60.0)
            for node in (await self._documents(Node)).values():
                self._note_node(node)
            for pod in pods:
                if pod.metadata.uid in documents:
                    self._note_pod(pod, documents[pod.metadata.uid], at_start=True)
            metrics.subscribe(self._note_usage, lambda _, metric: self._note_usage(metric))
            pods.subscribe(None, lambda _, pod: self._note_end(pod), self._note_deletion)
            nodes.subscribe(None, None, self._note_leaving)
            ends = self._began + seconds
            while (left := ends - self._clock.monotonic()) > 0:
                await self._sleep(min(_LOOKED, left))
                await self._note_arrivals()
                if progress is not None:
                    progress(self._elapsed() / seconds, f"{len(recording.pods):,} pods so far")
                if stopping is not None and stopping.is_set():
                    break
        recording.seconds = self._clock.monotonic() - self._began
        return recording

    async def _documents(self, type_: type[KubeObject]) -> dict[str, Document]:
        found = {}
        async for document in self._client.list_raw(resource_of(type_)):
            found[document["metadata"]["uid"]] = document
        return found

    async def _note_arrivals(self) -> None:
        """Read new objects completely: informers keep only parts."""
        for node in list(self._cluster.store(Node)):
            if node.metadata.name not in self._recording.nodes:
                with suppress(ApiError):
                    self._note_node(await self._client.get_raw(resource_of(Node), "", node.metadata.name))
                    joined = self._recording.nodes[node.metadata.name]
                    joined["joins"] = f"{max(self._elapsed(), 1):.0f}s"
        for pod in list(self._cluster.store(Pod)):
            if pod.metadata.uid in self._recording.pods:
                continue
            with suppress(ApiError):  # it may already be gone
                meta = pod.metadata
                document = await self._client.get_raw(resource_of(Pod), meta.namespace, meta.name)
                if document["metadata"]["uid"] == meta.uid:
                    self._note_pod(pod, document, at_start=False)

    # --- records ---------------------------------------------------------------------------------

    def _note_node(self, node: Document) -> None:
        meta, status = node["metadata"], node.get("status") or {}
        name = self._masking.name("node", meta["name"])
        labels = self._masking.labels(meta.get("labels") or {})
        group: Document = {
            "name": name,
            "labels": labels,
            "annotations": self._masking.annotations(meta.get("annotations") or {}),
            "taints": (node.get("spec") or {}).get("taints") or [],
            "allocatable": status.get("allocatable") or {"pods": "0"},
        }
        self._recording.nodes[meta["name"]] = {key: value for key, value in group.items() if value}

    def _note_leaving(self, node: Node) -> None:
        known = self._recording.nodes.get(node.metadata.name)
        if known is not None and "leaves" not in known:
            known["leaves"] = f"{max(self._elapsed(), 2):.0f}s"

    def _note_pod(self, pod: Pod, document: Document, *, at_start: bool) -> None:
        if pod.status.phase in _ENDED:
            return
        row: Document = {
            "pod": self._masking.pod(document),
            "arrival": 0.0 if at_start else round(self._elapsed(), 3),
            "duration": None,
            "usage": {},
        }
        if not at_start:
            with suppress(ValueError):
                created = parse_time(document["metadata"]["creationTimestamp"])
                start = parse_time(self._recording.start)
                row["arrival"] = max((created - start).total_seconds(), 0.0)
        elif pod.spec.node_name:
            row["pod"]["spec"]["nodeName"] = self._masking.name("node", pod.spec.node_name)
        self._recording.pods[pod.metadata.uid] = row

    def _note_end(self, pod: Pod) -> None:
        if pod.status.phase in _ENDED:
            self._note_deletion(pod)

    def _note_deletion(self, pod: Pod) -> None:
        row = self._recording.pods.get(pod.metadata.uid)
        if row is not None and row["duration"] is None:
            row["duration"] = round(max(self._elapsed() - row["arrival"], 1.0), 3)

    def _note_usage(self, metric: NodeMetric) -> None:
        at = round(self._elapsed(), 3)
        info = metric.status.node_metric
        of_node = _amounts(info.node_usage) if info is not None else {}
        for item in metric.status.pods_metric:
            if item is None:
                continue
            pod = self._cluster.store(Pod).get(item.namespace, item.name)
            row = self._recording.pods.get(pod.metadata.uid) if pod is not None else None
            for resource, used in _amounts(item.pod_usage).items():
                of_node[resource] = of_node.get(resource, 0) - used
                if row is not None:
                    _add(row["usage"].setdefault(resource, []), at, used)
        node = self._recording.nodes.get(metric.metadata.name)
        if node is not None and "systemUsage" not in node:
            units = {"cpu": "m", "memory": ""}
            rest = {name: f"{amount}{units[name]}" for name, amount in of_node.items() if amount > 0}
            if rest:
                node["systemUsage"] = rest

    def _elapsed(self) -> float:
        return self._clock.monotonic() - self._began


def write(recording: Recording, path: Path, *, name: str) -> Path:
    """Write a scenario and, next to it, the table of its pods; return the table's path. Raises OSError."""
    table = path.with_name(f"{path.stem}.pods.jsonl")
    lines = [json.dumps(row, ensure_ascii=False) for row in recording.pods.values()]
    table.write_text("\n".join(lines) + ("\n" if lines else ""), encoding="utf-8")
    seconds = max(recording.seconds, 1.0) if recording.seconds else 3600.0
    scenario: Document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": name,
        "description": f"Recorded at {recording.start}.",
        "start": recording.start,
        "duration": duration.format(round(seconds) * duration.SECOND),
        "nodes": list(recording.nodes.values()),
        "objects": [{"manifest": document} for document in recording.objects],
        "workloads": [{"name": "recorded", "trace": {"file": table.name}}],
    }
    path.write_text(
        yaml.safe_dump(scenario, sort_keys=False, allow_unicode=True, width=120), encoding="utf-8"
    )
    return table


def _amounts(usage: ResourceMap) -> dict[str, int]:
    """Return milli-CPU and bytes."""
    return {
        resource: quantity.resource_value(resource, usage.resources[resource])
        for resource in MEASURED
        if resource in usage.resources
    }


def _add(steps: list[list[float]], at: float, value: int) -> None:
    """Add a step unless it equals the last one; of two at one time the last counts."""
    if steps and steps[-1][0] == at:
        steps[-1][1] = value
    elif not steps or steps[-1][1] != value:
        steps.append([at, value])
