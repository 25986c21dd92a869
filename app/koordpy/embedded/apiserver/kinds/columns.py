"""The table columns of built-in kinds.

Source: Kubernetes, `pkg/printers/internalversion`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from koordpy.api.meta import parse_time

Document = dict[str, Any]
Cell = Callable[[Document, datetime], Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, its type, and how a cell is read; `priority` above 0 is for `-o wide`."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    @property
    def definition(self) -> Document:
        """The column as a Table describes it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


def duration(seconds: float) -> str:
    """Format a duration as kubectl does: `12s`, `3m4s`, `5h`, `2d3h`."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 0:
        return "0s"
    if whole < 120:
        return f"{whole}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return f"{minutes}m{whole % 60}s" if whole % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if hours < 24 * 365 * 2:
        return f"{days}d"
    years = days // 365
    if hours < 24 * 365 * 8:
        return f"{years}y{days % 365}d" if days % 365 else f"{years}y"
    return f"{years}y"


def since(text: str | None, now: datetime) -> str:
    """Format the time since another time."""
    try:
        return duration((now - parse_time(text)).total_seconds()) if text else "<unknown>"
    except (TypeError, ValueError):
        return "<unknown>"


def _name(document: Document, now: datetime) -> str:
    name: str = document["metadata"]["name"]
    return name


def _age(document: Document, now: datetime) -> str:
    return since(document["metadata"].get("creationTimestamp"), now)


def path(*names: str, default: Any = "<none>") -> Cell:
    """Return a cell that shows the field at a path."""

    def cell(document: Document, now: datetime) -> Any:
        value: Any = document
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
            if value is None:
                return default
        return value

    return cell


def _labels(*names: str) -> Cell:
    found = path(*names, default={})

    def cell(document: Document, now: datetime) -> str:
        labels = found(document, now)
        return ",".join(f"{key}={value}" for key, value in sorted(labels.items())) or "<none>"

    return cell


NAME = Column("Name", _name, format="name")
AGE = Column("Age", _age)
PLAIN = (NAME, AGE)


def of_pod() -> tuple[Column, ...]:
    """The columns of pods."""
    status: Cell = path("status", default={})

    def statuses(document: Document) -> list[Document]:
        found: list[Document] = document.get("status", {}).get("containerStatuses") or []
        return found

    def ready(document: Document, now: datetime) -> str:
        count = sum(bool(item.get("ready")) for item in statuses(document))
        return f"{count}/{len(document['spec'].get('containers', []))}"

    def restarts(document: Document, now: datetime) -> str:
        return str(sum(item.get("restartCount", 0) for item in statuses(document)))

    def phase(document: Document, now: datetime) -> str:
        own = status(document, now)
        reason = own.get("reason") or own.get("phase", "")
        for condition in own.get("conditions", []):
            if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
                reason = "SchedulingGated"
        for item in reversed(statuses(document)):
            state = item.get("state", {})
            reason = (
                state.get("waiting", {}).get("reason") or state.get("terminated", {}).get("reason") or reason
            )
        if "deletionTimestamp" in document["metadata"]:
            return "Unknown" if own.get("reason") == "NodeLost" else "Terminating"
        return str(reason)

    def ip(document: Document, now: datetime) -> str:
        return status(document, now).get("podIP") or "<none>"

    def gates(document: Document, now: datetime) -> str:
        found = document["spec"].get("readinessGates", [])
        if not found:
            return "<none>"
        true = {c["type"] for c in status(document, now).get("conditions", []) if c.get("status") == "True"}
        return f"{sum(gate['conditionType'] in true for gate in found)}/{len(found)}"

    return (
        NAME,
        Column("Ready", ready),
        Column("Status", phase),
        Column("Restarts", restarts),
        AGE,
        Column("IP", ip, priority=1),
        Column("Node", path("spec", "nodeName"), priority=1),
        Column("Nominated Node", path("status", "nominatedNodeName"), priority=1),
        Column("Readiness Gates", gates, priority=1),
    )


def of_node() -> tuple[Column, ...]:
    """The columns of nodes."""

    def state(document: Document, now: datetime) -> str:
        ready = [c for c in document.get("status", {}).get("conditions", []) if c.get("type") == "Ready"]
        text = "Unknown"
        if ready:
            text = "Ready" if ready[0].get("status") == "True" else "NotReady"
        return f"{text},SchedulingDisabled" if document.get("spec", {}).get("unschedulable") else text

    def roles(document: Document, now: datetime) -> str:
        found = set()
        for key, value in document["metadata"].get("labels", {}).items():
            if key.startswith("node-role.kubernetes.io/"):
                found.add(key.partition("/")[2])
            elif key == "kubernetes.io/role":
                found.add(value)
        return ",".join(sorted(found - {""})) or "<none>"

    def address(kind: str) -> Cell:
        def cell(document: Document, now: datetime) -> str:
            for item in document.get("status", {}).get("addresses", []):
                if item.get("type") == kind:
                    return str(item.get("address", ""))
            return "<none>"

        return cell

    def info(name: str) -> Cell:
        return path("status", "nodeInfo", name, default="<unknown>")

    return (
        NAME,
        Column("Status", state),
        Column("Roles", roles),
        AGE,
        Column("Version", path("status", "nodeInfo", "kubeletVersion", default="")),
        Column("Internal-IP", address("InternalIP"), priority=1),
        Column("External-IP", address("ExternalIP"), priority=1),
        Column("OS-Image", info("osImage"), priority=1),
        Column("Kernel-Version", info("kernelVersion"), priority=1),
        Column("Container-Runtime", info("containerRuntimeVersion"), priority=1),
    )


def of_workload() -> dict[str, tuple[Column, ...]]:
    """The columns of the kinds that own pods."""

    def count(*names: str) -> Cell:
        return path(*names, default=0)

    def ready(document: Document, now: datetime) -> str:
        have = count("status", "readyReplicas")(document, now)
        return f"{have}/{path('spec', 'replicas', default=1)(document, now)}"

    def template(field: str) -> Cell:
        def cell(document: Document, now: datetime) -> str:
            found = path("spec", "template", "spec", "containers", default=[])(document, now)
            return ",".join(str(container.get(field, "")) for container in found)

        return cell

    wide = (
        Column("Containers", template("name"), priority=1),
        Column("Images", template("image"), priority=1),
    )
    selector = Column("Selector", _labels("spec", "selector", "matchLabels"), priority=1)
    sets = (
        NAME,
        Column("Desired", count("spec", "replicas"), "integer"),
        Column("Current", count("status", "replicas"), "integer"),
        Column("Ready", count("status", "readyReplicas"), "integer"),
        AGE,
        *wide,
    )
    return {
        "Deployment": (
            NAME,
            Column("Ready", ready),
            Column("Up-to-date", count("status", "updatedReplicas"), "integer"),
            Column("Available", count("status", "availableReplicas"), "integer"),
            AGE,
            *wide,
            selector,
        ),
        "ReplicaSet": (*sets, selector),
        "ReplicationController": (*sets, Column("Selector", _labels("spec", "selector"), priority=1)),
        "StatefulSet": (NAME, Column("Ready", ready), AGE, *wide),
        "DaemonSet": (
            NAME,
            Column("Desired", count("status", "desiredNumberScheduled"), "integer"),
            Column("Current", count("status", "currentNumberScheduled"), "integer"),
            Column("Ready", count("status", "numberReady"), "integer"),
            Column("Up-to-date", count("status", "updatedNumberScheduled"), "integer"),
            Column("Available", count("status", "numberAvailable"), "integer"),
            Column("Node Selector", _labels("spec", "template", "spec", "nodeSelector")),
            AGE,
            *wide,
            selector,
        ),
    }


def of_event() -> tuple[Column, ...]:
    """The columns of events."""

    def last_seen(document: Document, now: datetime) -> str:
        last = (
            document.get("series", {}).get("lastObservedTime")
            or document.get("lastTimestamp")
            or document.get("deprecatedLastTimestamp")
            or document.get("eventTime")
        )
        return since(last, now)

    def about(document: Document, now: datetime) -> str:
        reference = document.get("involvedObject") or document.get("regarding") or {}
        return f"{reference.get('kind', '').lower()}/{reference.get('name', '')}"

    def source(document: Document, now: datetime) -> str:
        found = document.get("source") or document.get("deprecatedSource") or {}
        texts = [found.get("component") or document.get("reportingComponent", ""), found.get("host", "")]
        return ", ".join(text for text in texts if text)

    def message(document: Document, now: datetime) -> str:
        return str(document.get("message") or document.get("note") or "").strip()

    def times(document: Document, now: datetime) -> int:
        series = document.get("series", {}).get("count")
        found: int = series or document.get("count") or document.get("deprecatedCount") or 1
        return found

    return (
        Column("Last Seen", last_seen),
        Column("Type", path("type", default="")),
        Column("Reason", path("reason", default="")),
        Column("Object", about),
        Column("Source", source, priority=1),
        Column("Message", message),
        Column("Count", times, "integer", priority=1),
        Column("Name", _name, priority=1, format="name"),
    )


def _budget_columns() -> tuple[Column, ...]:
    return (
        NAME,
        Column("Min Available", path("spec", "minAvailable", default="N/A")),
        Column("Max Unavailable", path("spec", "maxUnavailable", default="N/A")),
        Column("Allowed Disruptions", path("status", "disruptionsAllowed", default=0), "integer"),
        AGE,
    )


def _counted(field: str) -> Cell:
    def cell(document: Document, now: datetime) -> int:
        return len(document.get(field) or ())

    return cell


def _webhook_columns() -> tuple[Column, ...]:
    return (NAME, Column("Webhooks", _counted("webhooks"), "integer"), AGE)


BUILT_IN: dict[str, tuple[Column, ...]] = {
    "Pod": of_pod(),
    "Node": of_node(),
    **of_workload(),
    "Event": of_event(),
    "Namespace": (NAME, Column("Status", path("status", "phase", default="")), AGE),
    "PodDisruptionBudget": _budget_columns(),
    "ConfigMap": (NAME, Column("Data", _counted("data"), "integer"), AGE),
    "Secret": (
        NAME,
        Column("Type", path("type", default="")),
        Column("Data", _counted("data"), "integer"),
        AGE,
    ),
    "Service": (
        NAME,
        Column("Type", path("spec", "type", default="")),
        Column("Cluster-IP", path("spec", "clusterIP")),
        AGE,
        Column("Selector", _labels("spec", "selector"), priority=1),
    ),
    "Lease": (NAME, Column("Holder", path("spec", "holderIdentity", default="")), AGE),
    "PriorityClass": (
        NAME,
        Column("Value", path("value", default=0), "integer"),
        Column("Global-Default", path("globalDefault", default=False), "boolean"),
        AGE,
        Column("PreemptionPolicy", path("preemptionPolicy", default="PreemptLowerPriority")),
    ),
    "CustomResourceDefinition": (
        NAME,
        Column("Created At", path("metadata", "creationTimestamp"), "date"),
    ),
    "MutatingWebhookConfiguration": _webhook_columns(),
    "ValidatingWebhookConfiguration": _webhook_columns(),
    "PersistentVolumeClaim": (
        NAME,
        Column("Status", path("status", "phase", default="")),
        Column("Volume", path("spec", "volumeName", default="")),
        Column("StorageClass", path("spec", "storageClassName", default="")),
        AGE,
    ),
}


def of(kind: str) -> tuple[Column, ...]:
    """Return the columns of a built-in kind."""
    return BUILT_IN.get(kind, PLAIN)
