"""An audit that follows changes: after each change only what it touches is checked again."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.koordinator import ElasticQuota, NodeResourceTopology
from koordpy.api.meta import KubeObject
from koordpy.api.reservation import Reservation

from .auditing import audit
from .checks import quotas, reservations
from .finding import Finding
from .objects import Objects

OF_ALL: Final = (quotas.NAME, reservations.NAME)
"""Checks of what is not of one node."""


class Auditor:
    """Objects by type and key, as lists and watches show them; `findings` audits the nodes that changed.

    Quotas, and Reservations with owners on other nodes, are of the whole cluster: `findings_of_all`.
    `missing` has the kinds that are not followed, with the reason.
    """

    def __init__(self, missing: Mapping[str, str] | None = None) -> None:
        self._missing = {} if missing is None else missing
        self._objects: dict[type[KubeObject], dict[str, KubeObject]] = {}
        self._of_node: dict[str, dict[tuple[type[KubeObject], str], KubeObject]] = {}
        self._changed: set[str] = set()
        self._found: dict[str, list[Finding]] = {}

    def apply(self, obj: KubeObject) -> None:
        """Add an object, or replace its earlier version."""
        self.remove(obj)
        self._objects.setdefault(type(obj), {})[obj.metadata.key] = obj
        for node in _nodes(obj):
            self._of_node.setdefault(node, {})[type(obj), obj.metadata.key] = obj
            self._changed.add(node)

    def remove(self, obj: KubeObject) -> None:
        """Forget an object, if it is known."""
        known = self._objects.get(type(obj), {}).pop(obj.metadata.key, None)
        for node in _nodes(known) if known is not None else ():
            self._of_node[node].pop((type(obj), obj.metadata.key), None)
            self._changed.add(node)

    def findings(self) -> list[Finding]:
        """Return what is wrong on all nodes now."""
        for node in self._changed:
            report = audit(self._as_objects(self._of_node[node].values()))
            found = [each for each in report.findings if each.check not in OF_ALL]
            if found:
                self._found[node] = found
            else:
                self._found.pop(node, None)
        self._changed.clear()
        return [finding for node in sorted(self._found) for finding in self._found[node]]

    def findings_of_all(self) -> list[Finding]:
        """Return what is wrong now with what is not of one node."""
        types = (ElasticQuota, Reservation, Pod)
        objects = self._as_objects(obj for type_ in types for obj in self._objects.get(type_, {}).values())
        return [each for each in audit(objects).findings if each.check in OF_ALL]

    def whole(self) -> Objects:
        """Return all objects, for an audit of everything."""
        return self._as_objects(obj for objects in self._objects.values() for obj in objects.values())

    def _as_objects(self, found: Iterable[KubeObject]) -> Objects:
        by_type: dict[type[KubeObject], list[KubeObject]] = {}
        for obj in found:
            by_type.setdefault(type(obj), []).append(obj)
        return Objects.of(by_type, self._missing)


def _nodes(obj: KubeObject) -> Iterator[str]:
    """Yield the node that an object is on, or is about."""
    if isinstance(obj, Pod):
        name = obj.spec.node_name
    elif isinstance(obj, Reservation):
        name = obj.status.node_name
    else:
        name = obj.metadata.name if isinstance(obj, Node | NodeResourceTopology | Device) else ""
    if name:
        yield name
