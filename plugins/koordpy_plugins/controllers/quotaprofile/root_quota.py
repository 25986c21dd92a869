"""The root quota of a tree, made from its ElasticQuotaProfile and the nodes that it selects.

Source: Koordinator, `pkg/quota-controller/profile/profile_controller.go`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from koordpy.api import extension, label_selector, resource_list
from koordpy.api import resource_amounts as amounts
from koordpy.api.core import Node
from koordpy.api.koordinator import ElasticQuota, ElasticQuotaProfile
from koordpy.api.quantity import ZERO, Format, Quantity
from koordpy.api.resource_list import Quantities
from koordpy.lib import go_json, int64
from koordpy.lib.go_number import parse_float

MAX: Final = Quantity.of(int64.MAX // 2000)
"""The maximum of a root quota: as good as unlimited, also in thousandths and summed up."""

_KEYS: Final = ("cpu", "memory")
_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3


def tree_id(namespace: str, name: str) -> str:
    """Return the id of the tree of a profile that names none: FNV-1a, 64 bits, of `namespace/name`."""
    number = _FNV_OFFSET
    for byte in f"{namespace}/{name}".encode():
        number = (number ^ byte) * _FNV_PRIME & 0xFFFFFFFFFFFFFFFF
    return str(number)


@dataclass(frozen=True)
class NodeResources:
    """What nodes can allocate together, and the part of it on nodes that take no pods at the moment."""

    total: Quantities
    unschedulable: Quantities

    @classmethod
    def of(cls, profile: ElasticQuotaProfile, nodes: Iterable[Node]) -> "NodeResources":
        """Sum up the nodes that a profile selects, times its ratio. Raises SelectorError."""
        selector = label_selector.of(profile.spec.node_selector)
        total: Quantities = {}
        unschedulable: Quantities = {}
        for node in nodes:
            if not selector.matches(node.metadata.labels):
                continue
            allocatable = resource_list.from_wire(node.status.allocatable)
            total = amounts.plus(total, allocatable)
            if node.spec.unschedulable or not _is_ready(node):
                unschedulable = amounts.plus(unschedulable, allocatable)
        text = profile.spec.resource_ratio
        if text is None:
            return cls(total, unschedulable)
        ratio = _ratio(text)
        return cls(_scaled(total, ratio), _scaled(unschedulable, ratio))


def _is_ready(node: Node) -> bool:
    """Return whether the first Ready condition of a node is true."""
    return next((item.status == "True" for item in node.status.conditions if item.type == "Ready"), False)


def _ratio(text: str) -> float:
    """Read a ratio: above 0 and at most 1, otherwise it counts as 1."""
    ratio = parse_float(text)
    return ratio if ratio is not None and 0 < ratio <= 1 else 1.0


def _scaled(resources: Quantities, ratio: float) -> Quantities:
    """Multiply amounts, counted in thousandths of cpu and whole units of the others, and truncate."""
    return {name: _multiplied(name, amount, ratio) for name, amount in resources.items()}


def _multiplied(name: str, amount: Quantity, ratio: float) -> Quantity:
    if name == "cpu":
        return Quantity.of_milli(int64.from_float(float(amount.milli_value()) * ratio))
    format_ = Format.BINARY_SI if name == "memory" else Format.DECIMAL_SI
    return Quantity.of(int64.from_float(float(amount.value()) * ratio), format_)


def resource_keys(annotations: Mapping[str, str]) -> list[str]:
    """Return the resources that a root quota guarantees and limits, cpu and memory unless a profile says so.

    A JSON array replaces the default position by position: an element that is null or no string leaves the
    default of its position, or an empty name where there is none. Other values leave the default.
    """
    keys = list(_KEYS)
    text = annotations.get(extension.ANNOTATION_QUOTA_RESOURCE_KEYS)
    if text is None:
        return keys
    try:
        given = go_json.parse(text)
    except ValueError:
        return keys
    if given is None:
        return []
    if not isinstance(given, list):
        return keys
    known = [*keys, *("" for _ in given[len(keys) :])]
    return [item if type(item) is str else known[place] for place, item in enumerate(given)]


@dataclass(frozen=True)
class RootQuota:
    """What a profile decides of its quota."""

    labels: dict[str, str]
    annotations: dict[str, str]
    min: Quantities
    max: Quantities

    @classmethod
    def of(cls, profile: ElasticQuotaProfile, tree: str, resources: NodeResources) -> "RootQuota":
        """Return the root quota of a tree."""
        keys = resource_keys(profile.metadata.annotations)
        return cls(
            labels={
                extension.LABEL_QUOTA_PROFILE: profile.metadata.name,
                **profile.spec.quota_labels,
                extension.LABEL_QUOTA_TREE_ID: tree,
                extension.LABEL_QUOTA_IS_ROOT: "true",
            },
            annotations={
                extension.ANNOTATION_QUOTA_TOTAL_RESOURCE: resource_list.text(resources.total),
                extension.ANNOTATION_QUOTA_UNSCHEDULABLE_RESOURCE: resource_list.text(
                    resources.unschedulable
                ),
            },
            min={key: resources.total.get(key, ZERO) for key in keys},
            max=dict.fromkeys(keys, MAX),
        )

    def document(self, namespace: str, name: str) -> dict[str, Any]:
        """Return the ElasticQuota to create."""
        return {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {
                "namespace": namespace,
                "name": name,
                "labels": self.labels,
                "annotations": self.annotations,
            },
            "spec": {"min": _wire(self.min), "max": _wire(self.max)},
        }

    def patch(self, stored: ElasticQuota) -> dict[str, Any]:
        """Return the JSON merge patch of a stored quota, empty if nothing differs.

        Labels and annotations of others stay; `min` and `max` become these lists as a whole.
        """
        patch: dict[str, Any] = {}
        metadata = {
            "labels": _differing(self.labels, stored.metadata.labels),
            "annotations": _differing(self.annotations, stored.metadata.annotations),
        }
        if changed := {key: value for key, value in metadata.items() if value}:
            patch["metadata"] = changed
        spec = {
            "min": _replacing(self.min, stored.spec.min),
            "max": _replacing(self.max, stored.spec.max),
        }
        if replaced := {key: value for key, value in spec.items() if value}:
            patch["spec"] = replaced
        return patch


def _wire(resources: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in resources.items()}


def _differing(wanted: Mapping[str, str], stored: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if stored.get(key) != value}


def _replacing(wanted: Quantities, stored: Mapping[str, Any]) -> dict[str, str | None]:
    """Return what makes one list of the other: new amounts, null for names that go."""
    known = resource_list.from_wire(stored)
    changes: dict[str, str | None] = dict.fromkeys(known.keys() - wanted.keys())
    changes.update({name: str(amount) for name, amount in wanted.items() if known.get(name) != amount})
    return changes
