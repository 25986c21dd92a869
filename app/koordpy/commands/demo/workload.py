"""What runs in the demo: nodes, and what their users deploy there, as documents.

The stand-in kubelets read from annotations what pods use.
"""

from typing import Any, Final

from koordpy.api.extension import LABEL_QUOTA_NAME
from koordpy.api.gang.membership import LABEL_POD_GROUP
from koordpy.embedded.kubelet.annotations import USED_CPU, USED_MEMORY

Document = dict[str, Any]

NODE_CPU: Final = 16
_GI: Final = 1024**3

CRUNCH_PER_NODE: Final = 4
SPARK_PODS: Final = 20
ONLINE_PODS: Final = 20
TRAINERS: Final = 4

SPARK_LABELS: Final = {"sparkoperator.k8s.io/launched-by-spark-operator": "true", "app": "spark"}


def node(name: str) -> Document:
    """Return a node with 16 cores; its batch resources are computed by the SLO controllers."""
    amounts = {"cpu": str(NODE_CPU), "memory": str(64 * _GI), "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def crunch(replicas: int) -> Document:
    """Return what makes its nodes hot: pods that use far more than they request."""
    return _deployment("crunch", replicas, ("100m", "128Mi"), used=("3", "2Gi"))


def services(replicas: int) -> list[Document]:
    """Return services with so many pods together, which use less than they request."""
    shares = {"catalog": ("2", "6Gi"), "cart": ("3200m", "8Gi"), "search": ("5", "10Gi")}
    return [
        _deployment(
            name, replicas // len(shares) + (index < replicas % len(shares)), ("4", "12Gi"), used=used
        )
        for index, (name, used) in enumerate(shares.items())
    ]


def web() -> Document:
    """Return an online service, of which the profile `online` makes LS pods."""
    return _deployment("web", ONLINE_PODS, ("500m", "1Gi"), used=("300m", "700Mi"), labels={"tier": "online"})


def spark() -> list[Document]:
    """Return the executors of a batch job, of which the profile `spark` makes BE pods."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": "analytics",
                "name": f"spark-{number:02d}",
                "labels": SPARK_LABELS,
                "annotations": {USED_CPU: "700m", USED_MEMORY: "1500Mi"},
            },
            "spec": {"containers": [_container("spark", "1500m", "2Gi")]},
        }
        for number in range(SPARK_PODS)
    ]


def training() -> Document:
    """Return a Job whose pods are a gang, under a quota that borrows from its sibling for them."""
    labels = {
        "app": "trainer",
        LABEL_POD_GROUP: "trainer",
        LABEL_QUOTA_NAME: "training",
    }
    container = _container("trainer", "1", "2Gi") | {"command": ["sleep", "24h"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"namespace": "training", "name": "trainer"},
        "spec": {
            "completions": TRAINERS,
            "parallelism": TRAINERS,
            "completionMode": "Indexed",
            "template": {
                "metadata": {"labels": labels, "annotations": {USED_CPU: "600m", USED_MEMORY: "1Gi"}},
                "spec": {
                    "restartPolicy": "Never",
                    "schedulerName": "koord-scheduler",
                    "containers": [container],
                },
            },
        },
    }


def _deployment(
    name: str,
    replicas: int,
    requests: tuple[str, str],
    *,
    used: tuple[str, str],
    labels: dict[str, str] | None = None,
) -> Document:
    """Return a Deployment; `requests` and `used` are a pod's cpu and memory."""
    selector = {"app": name}
    annotations = dict(zip((USED_CPU, USED_MEMORY), used, strict=True))
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"namespace": "shop", "name": name, "labels": selector},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {"labels": selector | (labels or {}), "annotations": annotations},
                "spec": {"containers": [_container(name, *requests)]},
            },
        },
    }


def _container(name: str, cpu: str, memory: str) -> Document:
    amounts = {"cpu": cpu, "memory": memory}
    return {"name": name, "image": f"{name}:1", "resources": {"requests": amounts, "limits": amounts}}
