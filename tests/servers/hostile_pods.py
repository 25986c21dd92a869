"""Pods as large as etcd takes them, each with content that occurs in no other."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

Document = dict[str, Any]

BYTES: Final = 850_000
"""About the size of each pod's document; etcd takes 1.5 MB with everything else."""


ANNOTATION_BYTES: Final = 260_000
"""Kubernetes takes annotations of 256 KiB in all."""


def _count(one: object) -> int:
    return BYTES // (len(json.dumps(one)) + 2)


def _requirement(number: int, item: int) -> Document:
    return {"key": f"k{item}.example.com/k{number}", "operator": "In", "values": [f"v{number}"]}


def _many_labels(number: int) -> dict[str, str]:
    count = _count({f"k{10_000}.example.com/k{number}": f"v{number}"})
    return {f"k{item}.example.com/k{number}": f"v{number}" for item in range(count)}


def _node_affinity(number: int) -> Document:
    terms = _count({"matchExpressions": [_requirement(number, 10_000)]})
    listed = [{"matchExpressions": [_requirement(number, item)]} for item in range(terms)]
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}
    return {"spec": {"affinity": {"nodeAffinity": wanted}}}


def _preferred_affinity(number: int) -> Document:
    def term(item: int) -> Document:
        return {"weight": 1, "preference": {"matchExpressions": [_requirement(number, item)]}}

    listed = [term(item) for item in range(_count(term(10_000)))]
    return {
        "spec": {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": listed}}}
    }


def _pod_affinity(number: int) -> Document:
    def term(item: int) -> Document:
        selector = {"matchLabels": {f"k{item}": f"v{number}"}}
        return {"topologyKey": f"zone-{item}-{number}", "labelSelector": selector}

    listed = [term(item) for item in range(_count(term(10_000)))]
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": listed}
    return {"spec": {"affinity": {"podAntiAffinity": wanted}}}


def _spread(number: int) -> Document:
    def constraint(item: int) -> Document:
        selector = {"matchExpressions": [_requirement(number, item)]}
        return {
            "maxSkew": 1,
            "topologyKey": f"zone-{item}-{number}",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": selector,
        }

    return {
        "spec": {
            "topologySpreadConstraints": [constraint(item) for item in range(_count(constraint(10_000)))]
        }
    }


def _node_selector(number: int) -> Document:
    return {"spec": {"nodeSelector": _many_labels(number)}}


def _labels(number: int) -> Document:
    return {"metadata": {"labels": _many_labels(number)}}


def _reservation_affinity(number: int) -> Document:
    term = {"matchExpressions": [_requirement(number, 10_000)]}
    count = ANNOTATION_BYTES // (len(json.dumps(term)) + 2)
    terms = [{"matchExpressions": [_requirement(number, item)]} for item in range(count)]
    wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"reservationSelectorTerms": terms}}
    text = json.dumps(wanted)
    return {"metadata": {"annotations": {"scheduling.koordinator.sh/reservation-affinity": text}}}


def _annotation(number: int) -> Document:
    return {"metadata": {"annotations": {f"example.com/{number}": "x" * ANNOTATION_BYTES}}}


def _tolerations(number: int) -> Document:
    def toleration(item: int) -> Document:
        return {"key": f"k{item}", "operator": "Equal", "value": f"v{number}", "effect": "NoSchedule"}

    return {"spec": {"tolerations": [toleration(item) for item in range(_count(toleration(10_000)))]}}


def _requests(number: int) -> Document:
    count = _count({f"r{10_000}.example.com/r{number}": f"{number}"}) // 2
    amounts = {f"r{item}.example.com/r{number}": f"{number + 1}" for item in range(count)}
    container = {"name": "main", "image": "i", "resources": {"requests": amounts, "limits": amounts}}
    return {"spec": {"containers": [container]}}


KINDS: Final[Mapping[str, Callable[[int], Document]]] = {
    "node affinity": _node_affinity,
    "preferred affinity": _preferred_affinity,
    "pod anti-affinity": _pod_affinity,
    "topology spread": _spread,
    "node selector": _node_selector,
    "labels": _labels,
    "reservation affinity": _reservation_affinity,
    "annotation": _annotation,
    "tolerations": _tolerations,
    "requests": _requests,
}
"""What is large, and a function from a number to the members of a pod that has it."""


def hostile_pod(kind: str, number: int) -> Document:
    """Return a pod of a kind; pods with different numbers have no content in common."""
    parts = KINDS[kind](number)
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1m"}}}
    name = f"{kind.replace(' ', '-')}-{number}"
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | parts.get("metadata", {}),
        "spec": {"schedulerName": "default-scheduler", "containers": [container]} | parts.get("spec", {}),
    }
