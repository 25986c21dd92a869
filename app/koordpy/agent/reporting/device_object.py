"""The Device of a node as a document: a new one, and what becomes of one that exists."""

from typing import Any

from koordpy.agent.reporting.device_spec import DeviceSpec, Document, place
from koordpy.api.core import Node


def created(node: Node, spec: DeviceSpec, now: str) -> Document:
    """Return a new object that ends with its node."""
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node.metadata.name,
        "uid": node.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    metadata: Document = {"name": node.metadata.name, "ownerReferences": [owner]}
    document = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Device", "metadata": metadata}
    return _with(document, spec, _timed(spec, {}, now))


def updated(found: Document, spec: DeviceSpec, now: str) -> Document | None:
    """Return the object with the spec, its labels and annotations; None if it has them already.

    As in Koordinator, labels and annotations of others are not kept. A condition keeps the time of its last
    transition unless its status changes.
    """
    devices = (found.get("spec") or {}).get("devices") or []
    before = {
        (device.get("id"), condition.get("type")): condition
        for device in devices
        for condition in device.get("conditions") or ()
    }
    wanted = _timed(spec, before, now)
    metadata = found.get("metadata") or {}
    if (
        _without_empty(sorted(devices, key=place)) == _without_empty(wanted)
        and (metadata.get("labels") or {}) == spec.labels
        and (metadata.get("annotations") or {}) == spec.annotations
    ):
        return None
    return _with(found, spec, wanted)


def _with(document: Document, spec: DeviceSpec, devices: list[Document]) -> Document:
    metadata = {key: value for key, value in document["metadata"].items() if key not in _REPLACED}
    if spec.labels:
        metadata["labels"] = spec.labels
    if spec.annotations:
        metadata["annotations"] = spec.annotations
    rest = {key: value for key, value in (document.get("spec") or {}).items() if key != "devices"}
    return {**document, "metadata": metadata, "spec": {**rest, **({"devices": devices} if devices else {})}}


_REPLACED = ("labels", "annotations")


def _timed(spec: DeviceSpec, before: dict[tuple[Any, Any], Document], now: str) -> list[Document]:
    """Return the devices with the times of the last transitions of their conditions."""
    devices = []
    for device in spec.devices:
        timed = dict(device)
        if conditions := device.get("conditions"):
            timed["conditions"] = [
                {**condition, "lastTransitionTime": _transition(device, condition, before, now)}
                for condition in conditions
            ]
        devices.append(timed)
    return devices


def _transition(
    device: Document, condition: Document, before: dict[tuple[Any, Any], Document], now: str
) -> str:
    old = before.get((device["id"], condition["type"]))
    if old is None or old.get("status") != condition["status"]:
        return now
    return str(old.get("lastTransitionTime") or now)


def _without_empty(value: Any) -> Any:
    """Return a value without fields that are null or empty, as Go compares objects."""
    if isinstance(value, dict):
        kept = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in kept.items() if each is not None and each != {} and each != []}
    if isinstance(value, list):
        return [_without_empty(each) for each in value]
    return value
