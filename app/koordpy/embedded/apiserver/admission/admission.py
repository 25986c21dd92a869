"""Admission of every write before it is stored, which may change or reject it.

First the controllers that every cluster runs (namespace lifecycle, priority, default tolerations), then the
webhooks that `webhooks.py` calls. If a mutating webhook changed a pod, the built-in controllers run again.
"""

from typing import Any, Protocol

from ..attributes import Attributes
from ..catalog import Catalog, Served
from ..kinds import namespaces, priority
from ..storage import Table

_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")

Document = dict[str, Any]

_TOLERATED = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Webhooks(Protocol):
    """The webhooks."""

    async def mutate(self, attrs: Attributes, new: Document | None, old: Document | None) -> Document | None:
        """Return the changed document. Raises ApiError for a rejection."""

    async def validate(self, attrs: Attributes, new: Document | None, old: Document | None) -> None:
        """Raise ApiError for a rejection."""


class Admission:
    """The admission chain."""

    def __init__(self, catalog: Catalog, webhooks: Webhooks, default_tolerations: bool = True) -> None:
        self._catalog = catalog
        self._webhooks = webhooks
        self._default_tolerations = default_tolerations
        self._namespaces = self._table("", "namespaces")
        self._classes = self._table("scheduling.k8s.io", "priorityclasses")

        self._nodes = self._table("", "nodes")

    def _table(self, group: str, plural: str) -> Table:
        served = self._catalog.find(group, "v1", plural)
        if served is None:
            raise LookupError(f"{plural} are not served")
        return served.table

    async def mutate(self, attrs: Attributes, new: Document | None, old: Document | None) -> Any:
        """Return the document after all mutating admission (of a deletion: None). Raises ApiError."""
        namespaces.admit(self._namespaces, attrs)
        if new is not None:
            self._built_in(attrs, new, old)
        changed = await self._webhooks.mutate(attrs, new, old)
        if changed is not new and changed is not None:
            self._built_in(attrs, changed, old)
        return changed

    async def validate(self, attrs: Attributes, new: Document | None, old: Document | None) -> None:
        """Run all validating admission. Raises ApiError."""
        if new is not None and attrs.served.kind == "PriorityClass":
            priority.check_global_default(self._classes, new)
        await self._webhooks.validate(attrs, new, old)

    def _built_in(self, attrs: Attributes, new: Document, old: Document | None) -> None:
        served: Served = attrs.served
        if attrs.subresource == "binding":
            label_topology(self._nodes, new["metadata"], new.get("target"))
            return
        if served.kind != "Pod" or served.group or attrs.subresource:
            return
        if attrs.operation == "CREATE":
            priority.admit(self._classes, new)
            if self._default_tolerations:
                tolerate(new["spec"])
            label_topology(
                self._nodes, new["metadata"], {"kind": "Node", "name": new["spec"].get("nodeName")}
            )
        elif attrs.operation == "UPDATE" and old is not None:
            for field in ("priority", "preemptionPolicy"):
                if field in old["spec"]:
                    new["spec"].setdefault(field, old["spec"][field])
            if self._default_tolerations:
                tolerate(new["spec"])


def tolerate(spec: Document) -> None:
    """Tolerate a node that is not ready or unreachable for five minutes, unless the pod sets that itself."""
    tolerations = spec.get("tolerations") or []
    for key in _TOLERATED:
        if not any(_covers(toleration, key) for toleration in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            )
    spec["tolerations"] = tolerations


def label_topology(nodes: Table, metadata: Document, target: Any) -> None:
    """Copy zone and region of the node that a pod is bound to into labels."""
    if not isinstance(target, dict) or target.get("kind") != "Node":
        return
    record = nodes.get(str(target.get("name") or ""))
    found = {key: record.labels[key] for key in _TOPOLOGY if key in record.labels} if record else {}
    if found:
        metadata["labels"] = {**metadata.get("labels", {}), **found}


def _covers(toleration: Document, key: str) -> bool:
    own_key, effect = toleration.get("key", ""), toleration.get("effect", "")
    return own_key in (key, "") and effect in ("NoExecute", "")
