"""Decodes quotas in requests, whose amounts may be written in many ways."""

from typing import Any, Final

from koordpy.api import extension, typed
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quantity import from_wire
from koordpy.api.scheme import decode

KIND: Final = "ElasticQuota"

_LABELS: Final = (
    extension.LABEL_QUOTA_PARENT,
    extension.LABEL_QUOTA_IS_PARENT,
    extension.LABEL_QUOTA_TREE_ID,
)


def read(document: dict[str, Any]) -> ElasticQuota:
    """Read a document as Go code would. Raises DecodeError."""
    return decode(ElasticQuota, typed.canonical(KIND, document))


def read_bytes(raw: bytes) -> tuple[dict[str, Any], ElasticQuota]:
    """Read JSON text; also return the document. Raises DecodeError."""
    document = typed.check(KIND, raw)
    return document, read(document)


def is_same_place(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Return whether two documents agree in a quota's place and amounts.

    Amounts are compared as written: `1` differs from `1000m`, and an absent list from an empty one.
    """
    old_labels, old_annotations = _metadata(old)
    new_labels, new_annotations = _metadata(new)
    return (
        all((old_labels.get(name) or "") == (new_labels.get(name) or "") for name in _LABELS)
        and (old_annotations.get(extension.ANNOTATION_QUOTA_NAMESPACES) or "")
        == (new_annotations.get(extension.ANNOTATION_QUOTA_NAMESPACES) or "")
        and all(_is_same_list(_spec(old).get(name), _spec(new).get(name)) for name in ("min", "max"))
    )


def _metadata(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    metadata = document.get("metadata") or {}
    return metadata.get("labels") or {}, metadata.get("annotations") or {}


def _spec(document: dict[str, Any]) -> dict[str, Any]:
    return document.get("spec") or {}


def _is_same_list(old: dict[str, Any] | None, new: dict[str, Any] | None) -> bool:
    if old is None or new is None:
        return old is new
    return old.keys() == new.keys() and all(
        from_wire(amount).has_same_form(from_wire(new[name])) for name, amount in old.items()
    )
