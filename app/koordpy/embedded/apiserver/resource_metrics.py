"""metrics.k8s.io: the usage of nodes and pods, for `kubectl top`, as metrics-server serves it.

It is worked out on request from the NodeMetrics that koordlets report. Objects have the form and the units of
metrics-server: nanocores, and kibibytes.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from koordpy.api import quantity

from .catalog import Catalog, Served
from .kinds.strategy import Strategy
from .storage import Record, Revisions, Table

Document = dict[str, Any]

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
_VERBS = ("get", "list")


class _Report(NamedTuple):
    """What one NodeMetric says: when, over which time, and how much."""

    node: str
    time: str
    window: str
    usage: Document
    pods: list[Document]


class _UsageTable(Table):
    """Objects that are computed when they are read."""

    def __init__(self, revisions: Revisions, compute: Callable[[], Iterator[Record]]) -> None:
        super().__init__(revisions, lambda _: {})
        self._compute = compute

    def get(self, key: str) -> Record | None:
        """Return the usage of one node or pod."""
        return next((record for record in self._compute() if record.key == key), None)

    def range(
        self, namespace: str = "", after: str = "", at: int | None = None
    ) -> tuple[list[str], dict[str, Record | None]]:
        """Return the keys of a namespace, and the objects themselves for `lookup`."""
        prefix = f"{namespace}/" if namespace else ""
        found: dict[str, Record | None] = {
            record.key: record for record in self._compute() if record.key.startswith(prefix)
        }
        keys = sorted(found)
        return keys[bisect_right(keys, after) :] if after else keys, found


class ResourceMetrics:
    """Computes usage from NodeMetrics; without that resource there is none."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def serve(self, revisions: Revisions) -> None:
        """Add the group to the catalog."""
        for plural, kind, namespaced, compute in (
            ("nodes", "NodeMetrics", False, self._nodes),
            ("pods", "PodMetrics", True, self._pods),
        ):
            served = Served(GROUP, VERSION, plural, kind, namespaced, verbs=_VERBS)
            served.strategy, served.table = Strategy(), _UsageTable(revisions, compute)
            self._catalog.add(served)

    def _reports(self) -> Iterator[_Report]:
        served = self._catalog.storage_of("slo.koordinator.sh", "nodemetrics")
        for record in served.table if served is not None else ():
            document = record.document()
            status = document.get("status") or {}
            usage = (status.get("nodeMetric") or {}).get("nodeUsage") or {}
            if not status.get("updateTime") or not usage.get("resources"):
                continue
            policy = (document.get("spec") or {}).get("metricCollectPolicy") or {}
            window = f"{policy.get('reportIntervalSeconds', 60)}s"
            pods = status.get("podsMetric") or []
            yield _Report(record.key, status["updateTime"], window, usage["resources"], pods)

    def _nodes(self) -> Iterator[Record]:
        nodes = self._table("nodes")
        for report in self._reports():
            node = nodes.get(report.node)
            if node is not None:
                yield _record(node, report, {"usage": _usage(report.usage, 1, 1)})

    def _pods(self) -> Iterator[Record]:
        pods = self._table("pods")
        for report in self._reports():
            for reported in report.pods:
                pod = pods.get(f"{reported.get('namespace')}/{reported.get('name')}")
                usage = (reported.get("podUsage") or {}).get("resources")
                if pod is not None and usage:
                    yield _record(pod, report, {"containers": _containers(pod, usage)})

    def _table(self, plural: str) -> Table:
        served = self._catalog.find("", "v1", plural)
        assert served is not None
        return served.table


def _record(of: Record, report: _Report, usage: Document) -> Record:
    """Return the usage of a stored object, with its name and labels."""
    namespace, _, name = of.key.rpartition("/")
    metadata: Document = {"name": name, "creationTimestamp": report.time}
    if namespace:
        metadata["namespace"] = namespace
    if of.labels:
        metadata["labels"] = dict(of.labels)
    document = {"metadata": metadata, "timestamp": report.time, "window": report.window, **usage}
    return Record(of.key, of.uid, of.revision, msgspec.json.encode(document), of.labels, {})


def _containers(pod: Record, usage: Document) -> list[Document]:
    """Divide the usage of a pod among its containers, equally: koordlets report pods."""
    names = [container["name"] for container in pod.document()["spec"].get("containers") or ()]
    return [{"name": name, "usage": _usage(usage, index, len(names))} for index, name in enumerate(names, 1)]


def _usage(amounts: Document, part: int, parts: int) -> Document:
    """Return one of equal parts of an amount of each resource; together they are the whole."""
    cpu = quantity.resource_value("cpu", amounts.get("cpu", 0)) * 1_000_000
    memory = quantity.resource_value("memory", amounts.get("memory", 0)) // 1024
    share = [amount * part // parts - amount * (part - 1) // parts for amount in (cpu, memory)]
    return {"cpu": f"{share[0]}n", "memory": f"{share[1]}Ki"}
