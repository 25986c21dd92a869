"""The kinds of pods that clusters bind: equal ones, different ones, those of Deployments behind Services.

What a pod costs depends on the kind. Equal pods can share an evaluation of the nodes; pods that differ
cannot; and those that a Service or a ReplicaSet selects get kube-scheduler's default spread constraints,
with which the node of one depends on the nodes of the others.
"""

import enum
from collections.abc import Iterator

from bench import objects
from bench.objects import Document
from koordpy.api.core import ReplicaSet, Service
from koordpy.api.meta import KubeObject

DEPLOYMENTS = 50


class Kind(enum.Enum):
    """What waiting pods have in common."""

    SAME = "pods that are all the same"
    DIFFERENT = "pods with different requests"
    DEPLOYMENTS = f"pods of {DEPLOYMENTS} Deployments behind Services"

    def pod(self, i: int, namespace: str) -> Document:
        """Return the i-th waiting pod."""
        pod = objects.waiting_pod(i, namespace)
        if self is Kind.DIFFERENT:
            _request(pod, 100 + i % 500, 200 * 1024 + i)
        elif self is Kind.DEPLOYMENTS:
            number = i % DEPLOYMENTS
            _request(pod, 100 + number, 200 * 1024)
            name = _replica_set_name(number)
            pod["metadata"] |= {
                "name": f"{name}-{i:05d}",
                "labels": _labels(number),
                "ownerReferences": [
                    {
                        "apiVersion": "apps/v1",
                        "kind": "ReplicaSet",
                        "name": name,
                        "uid": f"{number:08d}-6d4f-4b0e-9f27-3a1f0f1c5e11",
                        "controller": True,
                    }
                ],
            }
        return pod

    def owners(self) -> Iterator[tuple[type[KubeObject], Document]]:
        """Yield the objects that select the pods; no controller has to run for them."""
        if self is not Kind.DEPLOYMENTS:
            return
        for number in range(DEPLOYMENTS):
            labels = _labels(number)
            yield (
                Service,
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "metadata": {"name": labels["app"]},
                    "spec": {
                        "selector": {"app": labels["app"]},
                        "ports": [{"port": 80}],
                        "clusterIP": "None",
                    },
                },
            )
            yield (
                ReplicaSet,
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "metadata": {"name": _replica_set_name(number), "labels": labels},
                    "spec": {
                        "replicas": 0,
                        "selector": {"matchLabels": labels},
                        "template": {
                            "metadata": {"labels": labels},
                            "spec": {"containers": [{"name": "main", "image": "registry.example.com/web"}]},
                        },
                    },
                },
            )


def _labels(number: int) -> dict[str, str]:
    return {"app": f"web-{number:02d}", "pod-template-hash": f"6b7d9c5f{number:02d}"}


def _replica_set_name(number: int) -> str:
    labels = _labels(number)
    return f"{labels['app']}-{labels['pod-template-hash']}"


def _request(pod: Document, milli_cpu: int, kibibytes: int) -> None:
    amounts = {"cpu": f"{milli_cpu}m", "memory": f"{kibibytes}Ki"}
    pod["spec"]["containers"][0]["resources"]["requests"] = amounts
