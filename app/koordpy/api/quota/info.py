"""The contents of one ElasticQuota: its spec, its place in a tree, and the namespaces bound to it.

Source: Koordinator, `apis/extension/elastic_quota.go` and `pkg/webhook/elasticquota/quota_info.go`.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from koordpy.api import extension, resource_list
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quantity import QuantityError, parse_json
from koordpy.api.resource_list import Quantities
from koordpy.api.scheme import MALFORMED, DecodeError

ROOT: Final = "koordinator-root-quota"
SYSTEM: Final = "koordinator-system-quota"
DEFAULT: Final = "koordinator-default-quota"

_NAMES = msgspec.json.Decoder(list[str | None] | None)


@dataclass(frozen=True)
class QuotaInfo:
    """A quota. `parent_name` is empty only for the root, `tree_id` if there is no tree."""

    name: str
    parent_name: str
    is_parent: bool
    allow_lent_resource: bool
    allow_force_update: bool
    tree_id: str
    is_tree_root: bool
    max: Quantities
    min: Quantities
    guaranteed: Quantities
    namespaces: tuple[str, ...]

    @classmethod
    def of(cls, quota: ElasticQuota) -> "QuotaInfo":
        """Read a quota; its amounts must be quantities."""
        labels = quota.metadata.labels
        return cls(
            name=quota.metadata.name,
            parent_name=parent_name(quota),
            is_parent=labels.get(extension.LABEL_QUOTA_IS_PARENT) == "true",
            allow_lent_resource=labels.get(extension.LABEL_QUOTA_ALLOW_LENT_RESOURCE) != "false",
            allow_force_update=labels.get(extension.LABEL_QUOTA_ALLOW_FORCE_UPDATE) == "true",
            tree_id=labels.get(extension.LABEL_QUOTA_TREE_ID, ""),
            is_tree_root=labels.get(extension.LABEL_QUOTA_IS_ROOT) == "true",
            max=resource_list.from_wire(quota.spec.max),
            min=resource_list.from_wire(quota.spec.min),
            guaranteed=_leading(quota.metadata.annotations.get(extension.ANNOTATION_QUOTA_GUARANTEED, "")),
            namespaces=bound_namespaces(quota),
        )


def parent_name(quota: ElasticQuota) -> str:
    """Return the parent that a quota names, the root if it names none."""
    return quota.metadata.labels.get(extension.LABEL_QUOTA_PARENT) or (
        "" if quota.metadata.name == ROOT else ROOT
    )


def bound_namespaces(quota: ElasticQuota) -> tuple[str, ...]:
    """Return the namespaces that are bound to a quota; a malformed list binds none."""
    text = quota.metadata.annotations.get(extension.ANNOTATION_QUOTA_NAMESPACES, "")
    try:
        return read_names(text) if text else ()
    except DecodeError:
        return ()


def read_names(text: str) -> tuple[str, ...]:
    """Read a JSON list of names; null stands for an empty list or name. Raises DecodeError."""
    try:
        names = _NAMES.decode(text.encode())
    except MALFORMED as error:
        raise DecodeError(str(error)) from None
    return tuple(name or "" for name in names or ())


def _leading(text: str) -> Quantities:
    """Read the entries of a JSON resource list before the first invalid one."""
    amounts: Quantities = {}
    try:
        for name, raw in (resource_list.members(text) or {}).items():
            amounts[name] = parse_json(raw)
    except (DecodeError, QuantityError):
        pass
    return amounts
