"""Pods as their owners would create them: from the templates of workloads, and from existing pods.

Documents here are decoded JSON objects, complete or not, as users write them.
"""

from collections.abc import Mapping
from typing import Any, Final

_SERVED = ("status",)
_GIVEN = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "managedFields",
    "selfLink",
)
_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController"),
        ("spec", "template"),
    ),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "PodTemplate": ("template",),
}
_REPLICAS: Final = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController")


def members(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the object member of a name; an empty one if there is none."""
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def name_of(document: Mapping[str, Any]) -> str:
    """Return an object's name, or its generateName."""
    metadata = members(document, "metadata")
    return str(metadata.get("name") or metadata.get("generateName") or "")


def as_created_again(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return an existing pod as its owner would create it: without additions of the API server and the node.

    Changes by earlier admission stay, as there is no record of the pod before that.
    """
    document = {key: value for key, value in pod.items() if key not in _SERVED}
    metadata = {key: value for key, value in members(pod, "metadata").items() if key not in _GIVEN}
    document["metadata"] = metadata
    if isinstance(pod.get("spec"), dict):
        document["spec"] = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return document


def pod_of(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a pod, or the pod that a workload (Deployment, Job ...) would create; None for other objects."""
    kind = document.get("kind")
    if kind == "Pod":
        return dict(document)
    path = _TEMPLATES.get(str(kind))
    if path is None:
        return None
    template: Any = document
    for name in path:
        template = template.get(name) if isinstance(template, dict) else None
    if not isinstance(template, dict):
        return None
    own = template.get("metadata")
    own = dict(own) if isinstance(own, dict) else {}
    outer = document.get("metadata")
    own.pop("name", None)
    own["generateName"] = f"{name_of(document)}-"
    if isinstance(outer, dict) and outer.get("namespace"):
        own["namespace"] = outer["namespace"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": template.get("spec") or {}}


def pods_at_once(document: Mapping[str, Any]) -> int:
    """Return the number of pods that a workload runs at a time; 1 for a pod, and as default.

    A Job runs `parallelism` pods, but no more than `completions`.
    """
    spec = members(document, "spec")
    kind = document.get("kind")
    if kind in _REPLICAS:
        return _number(spec.get("replicas"))
    if kind != "Job":
        return 1
    parallelism = _number(spec.get("parallelism"))
    completions = spec.get("completions")
    return parallelism if completions is None else min(parallelism, _number(completions))


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 1
