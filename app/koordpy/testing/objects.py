"""Objects for tests in a line each, with harmless defaults.

Fields without a parameter are passed as in the API: `spec={"hostNetwork": True}`.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypedDict, Unpack

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import format_time
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
"""The fixed time of tests (`koordpy.testing.cluster`)."""

Amounts = Mapping[str, str | int]
Document = dict[str, Any]


def node(
    name: str,
    *,
    cpu: str | int = "8",
    memory: str | int = "32Gi",
    pods: str | int = 110,
    resources: Amounts | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    spec: Mapping[str, Any] | None = None,
) -> Node:
    """Return a ready node; `resources` are allocatable besides cpu, memory and pods."""
    offered = {"cpu": str(cpu), "memory": str(memory), "pods": str(pods), **(resources or {})}
    return decode(
        Node,
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "labels": {"kubernetes.io/hostname": name, **(labels or {})},
                "annotations": dict(annotations or {}),
            },
            "spec": {"taints": [dict(taint) for taint in taints], **(spec or {})},
            "status": {
                "allocatable": offered,
                "capacity": offered,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        },
    )


class PodOptions(TypedDict, total=False):
    """The differences of a pod from a pending one with one container that requests a core and a GiB."""

    cpu: str | int | None
    memory: str | int | None
    """None requests nothing."""
    resources: Amounts
    """Requested besides cpu and memory."""
    limits: Amounts
    on: str
    """The node on which it runs."""
    namespace: str
    priority: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    owner: str
    """The ReplicaSet that controls it."""
    spec: Mapping[str, Any]
    status: Mapping[str, Any]


def pod(name: str, **options: Unpack[PodOptions]) -> Pod:
    """Return a pod."""
    return decode(Pod, pod_document(name, **options))


def pod_document(name: str, **options: Unpack[PodOptions]) -> Document:
    """Return the same pod as the document that the API server would send, for admission handlers."""
    given = {"cpu": options.get("cpu", "1"), "memory": options.get("memory", "1Gi")}
    requests = {key: str(amount) for key, amount in given.items() if amount is not None}
    requests |= {key: str(amount) for key, amount in options.get("resources", {}).items()}
    namespace = options.get("namespace", "default")
    metadata: Document = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": format_time(NOW),
        "labels": dict(options.get("labels", {})),
        "annotations": dict(options.get("annotations", {})),
    }
    if owner := options.get("owner"):
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-{owner}"}
        metadata["ownerReferences"] = [{**reference, "controller": True}]
    limits = dict(options.get("limits", {}))
    container = {"name": "main", "resources": {"requests": requests, "limits": limits}}
    spec: Document = {"schedulerName": "default-scheduler", "containers": [container]}
    if node_name := options.get("on"):
        spec["nodeName"] = node_name
    if "priority" in options:
        spec["priority"] = options["priority"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec | dict(options.get("spec", {})),
        "status": {"phase": "Running" if node_name else "Pending", **options.get("status", {})},
    }


def node_metric(
    node_name: str,
    *,
    cpu: str | int = "0",
    memory: str | int = "0",
    pods: Mapping[str, Amounts] | None = None,
    at: datetime = NOW,
) -> NodeMetric:
    """Return the usage of a node, and of its pods by `namespace/name`, as reported at a time."""
    reports = []
    for key, used in (pods or {}).items():
        namespace, _, name = key.rpartition("/")
        reports.append(
            {"namespace": namespace or "default", "name": name, "podUsage": {"resources": dict(used)}}
        )
    usage = {"resources": {"cpu": str(cpu), "memory": str(memory)}}
    return decode(
        NodeMetric,
        {
            "metadata": {"name": node_name, "uid": f"uid-metric-{node_name}"},
            "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60, "aggregateDurationSeconds": 300}},
            "status": {
                "updateTime": format_time(at),
                "nodeMetric": {"nodeUsage": usage},
                "podsMetric": reports,
            },
        },
    )


def reservation(
    name: str,
    *,
    cpu: str | int = "1",
    memory: str | int = "1Gi",
    on: str = "",
    owners: Sequence[Mapping[str, Any]] | None = None,
    labels: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Reservation:
    """Return a Reservation, pending, or Available on the node `on`.

    Without `owners` every pod that is labelled `reserved-by: NAME` may use it.
    """
    amounts = {"cpu": str(cpu), "memory": str(memory)}
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": amounts}}]}}
    by_label = {"labelSelector": {"matchLabels": {"reserved-by": name}}}
    status: Document = {"phase": "Pending"}
    if on:
        status = {"phase": "Available", "nodeName": on, "allocatable": amounts}
    return decode(
        Reservation,
        {
            "metadata": {
                "name": name,
                "uid": f"uid-reservation-{name}",
                "creationTimestamp": format_time(NOW),
                "labels": dict(labels or {}),
            },
            "spec": {
                "template": template,
                "owners": [dict(owner) for owner in owners] if owners is not None else [by_label],
                "ttl": "24h",
                "allocateOnce": True,
                **(spec or {}),
            },
            "status": status,
        },
    )
