"""The objects that an audit reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from koordpy.api.core import Node, Pod
from koordpy.api.deprecated_resources import node_with_present_names, with_present_names
from koordpy.api.device import Device
from koordpy.api.koordinator import ElasticQuota, NodeResourceTopology
from koordpy.api.meta import KubeObject
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import DecodeError, decode, resource_of

TYPES: Final[tuple[type[KubeObject], ...]] = (
    Node,
    Pod,
    Reservation,
    NodeResourceTopology,
    Device,
    ElasticQuota,
)
"""What is read, in the order in which it is listed."""

KINDS: Final[Mapping[str, type[KubeObject]]] = {type_.__name__: type_ for type_ in TYPES}

_SAME_FORM: Final = {"topology.node.k8s.io/v1alpha2": "topology.node.k8s.io/v1alpha1"}
"""Versions that are read as another one. kubectl prints the preferred version, which here is not the one
that koordpy lists.
"""


@dataclass(frozen=True)
class Objects:
    """Objects of a cluster. `missing` has kinds that could not be read, with the reason."""

    nodes: Sequence[Node] = ()
    pods: Sequence[Pod] = ()
    reservations: Sequence[Reservation] = ()
    topologies: Sequence[NodeResourceTopology] = ()
    devices: Sequence[Device] = ()
    quotas: Sequence[ElasticQuota] = ()
    missing: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, found: Mapping[type[KubeObject], Sequence[Any]], missing: Mapping[str, str] | None = None
    ) -> "Objects":
        """Return objects by type. Resources with deprecated names count under the current ones."""
        return cls(
            [node_with_present_names(node) for node in found.get(Node, ())],
            [with_present_names(pod) for pod in found.get(Pod, ())],
            found.get(Reservation, ()),
            found.get(NodeResourceTopology, ()),
            found.get(Device, ()),
            found.get(ElasticQuota, ()),
            missing or {},
        )

    @property
    def counts(self) -> dict[str, int]:
        """How many objects there are, by kind."""
        return {
            "Node": len(self.nodes),
            "Pod": len(self.pods),
            "Reservation": len(self.reservations),
            "NodeResourceTopology": len(self.topologies),
            "Device": len(self.devices),
            "ElasticQuota": len(self.quotas),
        }


class UnusableDump(ValueError):
    """What was given is not a dump that can be audited; the message names the place and what was expected."""


def of_documents(documents: Iterable[tuple[str, Mapping[str, Any]]]) -> Objects:
    """Return the objects among documents, each with its place; other kinds are left out.

    An object that is there twice, as in two overlapping files, counts once: the later one. A kind without
    any object is missing, since a dump does not say whether the cluster has none. Raises UnusableDump.
    """
    found: dict[type[KubeObject], dict[tuple[str, str], KubeObject]] = {type_: {} for type_ in TYPES}
    for place, document in documents:
        type_, version = KINDS.get(str(document.get("kind"))), str(document.get("apiVersion", ""))
        if type_ is None or _SAME_FORM.get(version, version) != resource_of(type_).api_version:
            continue
        try:
            obj = decode(type_, dict(document))
        except DecodeError as error:
            raise UnusableDump(f"{place}: {error}") from None
        if not obj.metadata.name:
            raise UnusableDump(f"{place}: {type_.__name__} without metadata.name")
        found[type_][obj.metadata.namespace, obj.metadata.name] = obj
    if not found[Node] or not found[Pod]:
        absent = " and ".join(type_.__name__ for type_ in (Node, Pod) if not found[type_])
        raise UnusableDump(
            f"no {absent} found; expected nodes, pods, and what Koordinator adds to them, e.g. from: kubectl "
            "get nodes,pods,reservations,devices,noderesourcetopologies,elasticquotas -A -o json"
        )
    missing = {type_.__name__: "none in the dump" for type_ in TYPES if not found[type_]}
    return Objects.of({type_: list(objects.values()) for type_, objects in found.items()}, missing)
