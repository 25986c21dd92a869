"""The columns of volumes, claims and what provides them."""

from datetime import datetime
from typing import Any

from .column import AGE, NAME, Cell, Column, counted, path

Document = dict[str, Any]

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(*names: str) -> Cell:
    found = path(*names, default=())
    return lambda document, now: ",".join(_MODES.get(mode, mode) for mode in found(document, now))


def _phase(document: Document, now: datetime) -> str:
    if "deletionTimestamp" in document["metadata"]:
        return "Terminating"
    return str(document.get("status", {}).get("phase", ""))


_CLASS = Column("StorageClass", path("spec", "storageClassName", default=""))
_ATTRIBUTES = Column("VolumeAttributesClass", path("spec", "volumeAttributesClassName", default="<unset>"))
_VOLUME_MODE = Column("VolumeMode", path("spec", "volumeMode", default="<unset>"), priority=1)


def _of_volume() -> tuple[Column, ...]:
    def claim(document: Document, now: datetime) -> str:
        found = document.get("spec", {}).get("claimRef")
        return f"{found.get('namespace', '')}/{found.get('name', '')}" if found else ""

    return (
        NAME,
        Column("Capacity", path("spec", "capacity", "storage", default="0")),
        Column("Access Modes", _modes("spec", "accessModes")),
        Column("Reclaim Policy", path("spec", "persistentVolumeReclaimPolicy", default="")),
        Column("Status", _phase),
        Column("Claim", claim),
        _CLASS,
        _ATTRIBUTES,
        Column("Reason", path("status", "reason", default="")),
        AGE,
        _VOLUME_MODE,
    )


def _of_claim() -> tuple[Column, ...]:
    def bound(show: Cell) -> Cell:
        return lambda document, now: show(document, now) if document["spec"].get("volumeName") else ""

    return (
        NAME,
        Column("Status", _phase),
        Column("Volume", path("spec", "volumeName", default="")),
        Column("Capacity", bound(path("status", "capacity", "storage", default="0"))),
        Column("Access Modes", bound(_modes("status", "accessModes"))),
        _CLASS,
        _ATTRIBUTES,
        AGE,
        _VOLUME_MODE,
    )


def _of_class() -> tuple[Column, ...]:
    def name(document: Document, now: datetime) -> str:
        annotations = document["metadata"].get("annotations") or {}
        is_default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
        return f"{document['metadata']['name']}{' (default)' if is_default else ''}"

    return (
        Column("Name", name, format="name"),
        Column("Provisioner", path("provisioner", default="")),
        Column("ReclaimPolicy", path("reclaimPolicy", default="Delete")),
        Column("VolumeBindingMode", path("volumeBindingMode", default="Immediate")),
        Column("AllowVolumeExpansion", path("allowVolumeExpansion", default=False)),
        AGE,
    )


def of_storage() -> dict[str, tuple[Column, ...]]:
    """The columns of these kinds."""
    return {
        "CSINode": (NAME, Column("Drivers", counted("spec", "drivers"), "integer"), AGE),
        "CSIStorageCapacity": (
            NAME,
            Column("StorageClassName", path("storageClassName", default="")),
            Column("Capacity", path("capacity", default="<unset>")),
        ),
        "PersistentVolume": _of_volume(),
        "PersistentVolumeClaim": _of_claim(),
        "StorageClass": _of_class(),
        "VolumeAttachment": (
            NAME,
            Column("Attacher", path("spec", "attacher", default="")),
            Column("PV", path("spec", "source", "persistentVolumeName", default="")),
            Column("Node", path("spec", "nodeName", default="")),
            Column("Attached", path("status", "attached", default=False), "boolean"),
            AGE,
        ),
    }
