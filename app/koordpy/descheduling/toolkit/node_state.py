"""What of a node decides whether pods run well there, in a form that is compared later."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from koordpy.api.core import Node

_CHANGING: Final = ("kubernetes.io/batch-", "kubernetes.io/mid-")
"""Prefixes of resources that follow the usage of nodes: their amounts change all the time."""


def node_state(node: Node) -> dict[str, Any]:
    """Return hashes of a node's labels, taints and allocatable resources, and whether it is unschedulable."""
    allocatable = {
        name: str(amount)
        for name, amount in node.status.allocatable.items()
        if not name.startswith(_CHANGING)
    }
    taints = sorted((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
    return {
        "labels": _hash(sorted(node.metadata.labels.items())),
        "taints": _hash(taints),
        "allocatable": _hash(sorted(allocatable.items())),
        "unschedulable": node.spec.unschedulable,
    }


def change_since(before: Mapping[str, Any], node: Node) -> str | None:
    """Return which of these a node has changed since an earlier `node_state`; None if none.

    What the earlier state lacks is taken as unchanged.
    """
    changed = [name for name, value in node_state(node).items() if before.get(name, value) != value]
    return f"the node's {' and '.join(changed)} changed" if changed else None


def _hash(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()[:16]
