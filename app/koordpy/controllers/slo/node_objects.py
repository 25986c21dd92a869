"""One object for each node, with the node's name: created with it, deleted after it, its spec kept current.

Source: Koordinator, `pkg/slo-controller/nodemetric` and `nodeslo` (`Reconcile`).
"""

import logging
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from prometheus_client import Gauge

from koordpy.api.core import Node
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import Resource, resource_of
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.errors import AlreadyExists, NotFound

from ..reconcile import ReconcileError
from .metrics import count

T = TypeVar("T", bound=KubeObject)
S = TypeVar("S")


class Writes(Protocol):
    """How objects are written."""

    async def create(self, name: str, spec: Any) -> None:
        """Create the object of a node."""
        ...

    async def update(self, name: str, spec: Any) -> None:
        """Replace the spec of the object of a node."""
        ...

    async def delete(self, name: str) -> None:
        """Delete the object of a node."""
        ...


class ClientWrites:
    """Writes to the API server. A spec is replaced as a whole, and nothing else of the object."""

    def __init__(self, client: Callable[[], Client], type_: type[KubeObject]) -> None:
        self._client, self._type = client, type_
        self._resource: Resource = resource_of(type_)

    async def create(self, name: str, spec: Any) -> None:
        """Create the object of a node."""
        resource = self._resource
        document = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        await self._client().create_raw(resource, "", document)

    async def update(self, name: str, spec: Any) -> None:
        """Replace the spec of the object of a node."""
        operations = [{"op": "add", "path": "/spec", "value": spec}]
        await self._client().patch_raw(self._resource, "", name, operations, PatchType.JSON)

    async def delete(self, name: str) -> None:
        """Delete the object of a node."""
        await self._client().delete(self._type, "", name)


class NodeObjects(Generic[T, S]):
    """The objects of one kind.

    `node` and `stored` return what is known under a name; they may raise, and the name is retried then.
    `spec_of` is the spec of an object, `spec_for` the one that a node's should have (given the stored one).
    """

    def __init__(
        self,
        kind: str,
        reconciles: Gauge,
        *,
        node: Callable[[str], Node | None],
        stored: Callable[[str], T | None],
        spec_of: Callable[[T], S],
        spec_for: Callable[[Node, S | None], S],
        writes: Writes,
    ) -> None:
        self._kind, self._reconciles, self._writes = kind, reconciles, writes
        self._node, self._stored, self._spec_of, self._spec_for = node, stored, spec_of, spec_for

    async def reconcile(self, name: str) -> None:
        """Bring the object of a node up to date.

        Raises what reading and writing raise, and ReconcileError where the watch of these objects is behind:
        that is no fault, the next attempt sees the object.
        """
        node = self._read(self._node, name, "reconcileNodeGetError")
        stored = self._read(self._stored, name, f"reconcile{self._kind}GetError")
        if node is None and stored is None:
            return
        if node is None:
            try:
                await self._counted(f"delete{self._kind}", self._writes.delete(name))
            except NotFound:
                return
        elif stored is None:
            try:
                spec = self._spec_for(node, None)
                await self._counted(f"create{self._kind}", self._writes.create(name, spec))
            except AlreadyExists:
                told = f"{self._kind} {name} exists, which its watch has not shown yet"
                raise ReconcileError(told, level=logging.DEBUG) from None
        else:
            known = self._spec_of(stored)
            wanted = self._spec_for(node, known)
            if wanted != known:
                await self._counted(f"update{self._kind}", self._writes.update(name, wanted))

    def _read(self, read: Callable[[str], Any], name: str, reason: str) -> Any:
        try:
            return read(name)
        except Exception:
            count(self._reconciles, reason, ok=False)
            raise

    async def _counted(self, reason: str, write: Any) -> None:
        try:
            await write
        except NotFound:
            raise
        except Exception:
            count(self._reconciles, reason, ok=False)
            raise
        count(self._reconciles, reason, ok=True)
