"""The columns of pods."""

from datetime import datetime
from typing import Any

from .column import AGE, NAME, Column, path, since

Document = dict[str, Any]


def _statuses(document: Document, field: str = "containerStatuses") -> list[Document]:
    found: list[Document] = document.get("status", {}).get(field) or []
    return found


def _is_true(document: Document, condition: str) -> bool:
    conditions = document.get("status", {}).get("conditions") or ()
    return any(item.get("type") == condition and item.get("status") == "True" for item in conditions)


def _sidecars(document: Document) -> set[str]:
    """Init containers that run beside the others."""
    containers = document["spec"].get("initContainers") or ()
    return {item.get("name", "") for item in containers if item.get("restartPolicy") == "Always"}


def _ended(state: Document) -> str:
    """Why a container ended."""
    ended: Document = state.get("terminated") or {}
    if reason := ended.get("reason"):
        return str(reason)
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _initializing(document: Document) -> str:
    """The first init container that is not done, or nothing."""
    sidecars = _sidecars(document)
    for index, item in enumerate(_statuses(document, "initContainerStatuses")):
        state = item.get("state") or {}
        if "terminated" in state:
            if state["terminated"].get("exitCode", 0) == 0:
                continue
            return f"Init:{_ended(state)}"
        if item.get("name") in sidecars and item.get("started"):
            continue
        waiting = (state.get("waiting") or {}).get("reason")
        if waiting and waiting != "PodInitializing":
            return f"Init:{waiting}"
        return f"Init:{index}/{len(document['spec'].get('initContainers') or ())}"
    return ""


def _runs(item: Document) -> bool:
    state = item.get("state") or {}
    return bool(item.get("ready")) and ("running" in state or not state)


def _phase(document: Document, now: datetime) -> str:
    status = document.get("status", {})
    reason = status.get("reason") or status.get("phase", "")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    initializing = _initializing(document)
    reason = initializing or reason
    if not initializing or _is_true(document, "Initialized"):
        runs, failed = any(map(_runs, _statuses(document))), ""
        for item in reversed(_statuses(document)):
            state = item.get("state") or {}
            if waiting := (state.get("waiting") or {}).get("reason"):
                reason = waiting
            elif "terminated" in state:
                reason = _ended(state)
                failed = reason if state["terminated"].get("exitCode", 0) else failed
        if reason == "Completed" and runs and _is_true(document, "Ready"):
            reason = "Running"
        elif reason == "Completed":
            reason = failed or ("NotReady" if runs else reason)
    if "deletionTimestamp" in document["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        return str(reason) if status.get("phase") in ("Succeeded", "Failed") else "Terminating"
    return str(reason)


def _ready(document: Document, now: datetime) -> str:
    sidecars = _sidecars(document)
    ready = sum(map(_runs, _statuses(document)))
    ready += sum(
        bool(item.get("ready"))
        for item in _statuses(document, "initContainerStatuses")
        if item.get("name") in sidecars
    )
    return f"{ready}/{len(document['spec'].get('containers') or ()) + len(sidecars)}"


def _restarts(document: Document, now: datetime) -> str:
    items = _statuses(document, "initContainerStatuses")
    if not _initializing(document):
        sidecars = _sidecars(document)
        items = [item for item in items if item.get("name") in sidecars] + _statuses(document)
    count = sum(item.get("restartCount", 0) for item in items)
    ends = [(item.get("lastState") or {}).get("terminated", {}).get("finishedAt") for item in items]
    last = max(filter(None, ends), default="")
    return f"{count} ({since(last, now)} ago)" if count and last else str(count)


def of_pod() -> tuple[Column, ...]:
    """The columns of pods."""

    def ip(document: Document, now: datetime) -> str:
        return document.get("status", {}).get("podIP") or "<none>"

    def gates(document: Document, now: datetime) -> str:
        found = document["spec"].get("readinessGates", [])
        if not found:
            return "<none>"
        true = sum(_is_true(document, gate["conditionType"]) for gate in found)
        return f"{true}/{len(found)}"

    return (
        NAME,
        Column("Ready", _ready),
        Column("Status", _phase),
        Column("Restarts", _restarts),
        AGE,
        Column("IP", ip, priority=1),
        Column("Node", path("spec", "nodeName"), priority=1),
        Column("Nominated Node", path("status", "nominatedNodeName"), priority=1),
        Column("Readiness Gates", gates, priority=1),
    )
