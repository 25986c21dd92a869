"""Objects of a node named `n`, for tests of QoS plugins."""

from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeSLO
from koordpy.api.scheme import decode


def node(memory: str = "16Gi") -> Node:
    amounts = {"cpu": "8", "memory": memory}
    return decode(Node, {"metadata": {"name": "n"}, "status": {"capacity": amounts, "allocatable": amounts}})


def slo(**spec: Any) -> NodeSLO:
    return decode(NodeSLO, {"metadata": {"name": "n"}, "spec": spec})


def pod(
    uid: str,
    qos: str = "LS",
    *,
    requests: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Pod:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return decode(
        Pod,
        {
            "metadata": {
                "name": uid,
                "namespace": "d",
                "uid": uid,
                "labels": {"koordinator.sh/qosClass": qos},
                "annotations": annotations or {},
            },
            "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": resources}], **spec},
            "status": {
                "phase": "Running",
                "containerStatuses": [{"name": "c", "containerID": f"containerd://{uid}c"}],
            },
        },
    )
