"""Storage objects: volumes, claims and classes are kept with their defaults; nothing provisions them.

Source: Kubernetes, `pkg/apis/core/v1/defaults.go`, `pkg/apis/storage/v1/defaults.go`.
"""

from collections.abc import Iterable
from typing import Any

from koordpy.api.field_cause import Cause, required

from .. import quantities
from .strategy import Strategy

Document = dict[str, Any]


class StorageStrategy(Strategy):
    """A kind whose deletion answers with the object."""

    returns_deleted = True


class StorageClassStrategy(StorageStrategy):
    """The rules of storage classes."""

    def default(self, document: Document) -> None:
        """Volumes are deleted with their claims, and bound at once."""
        document.setdefault("reclaimPolicy", "Delete")
        document.setdefault("volumeBindingMode", "Immediate")

    def validate(self, document: Document) -> Iterable[Cause]:
        """A class has a provisioner."""
        if not document.get("provisioner"):
            yield required("provisioner")


class VolumeStrategy(StorageStrategy):
    """The rules of persistent volumes."""

    has_status = True

    def default(self, document: Document) -> None:
        """Volumes are kept, as file systems."""
        spec = document.setdefault("spec", {})
        quantities.settle(spec, "capacity", "PersistentVolume", "spec.")
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if isinstance(spec.get("hostPath"), dict):
            spec["hostPath"].setdefault("type", "")

    def prepare_create(self, document: Document) -> None:
        """A new volume is pending."""
        document["status"] = {"phase": "Pending"}

    def validate(self, document: Document) -> Iterable[Cause]:
        """A volume has a size and access modes."""
        for name in ("capacity", "accessModes"):
            if not document["spec"].get(name):
                yield required(f"spec.{name}")


class ClaimStrategy(StorageStrategy):
    """The rules of persistent volume claims."""

    has_status = True

    def default(self, document: Document) -> None:
        """Set the defaults of the spec."""
        default_claim(document)

    def prepare_create(self, document: Document) -> None:
        """A new claim is pending."""
        document["status"] = {"phase": "Pending"}

    def validate(self, document: Document) -> Iterable[Cause]:
        """A claim has access modes and a size."""
        spec = document["spec"]
        if not spec.get("accessModes"):
            yield required("spec.accessModes", "at least 1 access mode is required")
        if not ((spec.get("resources") or {}).get("requests") or {}).get("storage"):
            yield required("spec.resources[storage]")


def default_claim(document: Document) -> None:
    """Set the defaults of a claim, or of a claim template; quantities become canonical."""
    spec = document.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    if isinstance(resources := spec.get("resources"), dict):
        for name in ("requests", "limits"):
            quantities.settle(resources, name, "PersistentVolumeClaim", "spec.resources.")
