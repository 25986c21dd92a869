"""The columns of nodes."""

from datetime import datetime
from typing import Any

from .column import AGE, NAME, Cell, Column, path

Document = dict[str, Any]


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
        found = path("status", "nodeInfo", name, default="")
        return lambda document, now: found(document, now) or "<unknown>"

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
