"""The table columns of built-in kinds.

Source: Kubernetes, `pkg/printers/internalversion`.
"""

from datetime import datetime
from typing import Any

from .access import of_access
from .column import AGE, NAME, PLAIN, Cell, Column, counted, duration, path, since
from .event import of_event
from .network import of_network
from .node import of_node
from .pod import of_pod
from .storage import of_storage
from .workload import of_workload

__all__ = ["NAME", "PLAIN", "Cell", "Column", "duration", "of", "path", "since"]

Document = dict[str, Any]


def _data(document: Document, now: datetime) -> int:
    return len(document.get("data") or ()) + len(document.get("binaryData") or ())


def _of_quota() -> tuple[Column, ...]:
    def used(limits: bool) -> Cell:
        def cell(document: Document, now: datetime) -> str:
            status = document.get("status", {})
            have, hard = status.get("used") or {}, status.get("hard") or {}
            names = sorted(name for name in hard if name.startswith("limits.") is limits)
            return ", ".join(f"{name}: {have.get(name, 0)}/{hard[name]}" for name in names)

        return cell

    return NAME, Column("Request", used(limits=False)), Column("Limit", used(limits=True)), AGE


_WEBHOOKS = (NAME, Column("Webhooks", counted("webhooks"), "integer"), AGE)

_BUILT_IN: dict[str, tuple[Column, ...]] = {
    "Pod": of_pod(),
    "Node": of_node(),
    **of_workload(),
    **of_network(),
    **of_access(),
    **of_storage(),
    "Event": of_event(),
    "Namespace": (NAME, Column("Status", path("status", "phase", default="")), AGE),
    "ConfigMap": (NAME, Column("Data", _data, "integer"), AGE),
    "Secret": (
        NAME,
        Column("Type", path("type", default="")),
        Column("Data", counted("data"), "integer"),
        AGE,
    ),
    "LimitRange": (NAME, Column("Created At", path("metadata", "creationTimestamp"), "date")),
    "Lease": (NAME, Column("Holder", path("spec", "holderIdentity", default="")), AGE),
    "PriorityClass": (
        NAME,
        Column("Value", path("value", default=0), "integer"),
        Column("Global-Default", path("globalDefault", default=False), "boolean"),
        AGE,
        Column("PreemptionPolicy", path("preemptionPolicy", default="PreemptLowerPriority")),
    ),
    "ResourceQuota": _of_quota(),
    "RuntimeClass": (NAME, Column("Handler", path("handler", default="")), AGE),
    "CustomResourceDefinition": (
        NAME,
        Column("Created At", path("metadata", "creationTimestamp"), "date"),
    ),
    "MutatingWebhookConfiguration": _WEBHOOKS,
    "ValidatingWebhookConfiguration": _WEBHOOKS,
}


def of(kind: str) -> tuple[Column, ...]:
    """Return the columns of a built-in kind."""
    return _BUILT_IN.get(kind, PLAIN)
