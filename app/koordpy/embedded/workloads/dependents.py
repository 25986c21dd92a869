"""The objects that a workload controls: found by their owner reference, adopted and released by its selector.

Source: Kubernetes, `pkg/controller/controller_ref_manager.go`.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar

from koordpy.api.meta import KubeObject, OwnerReference
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import Invalid, NotFound
from koordpy.cluster.store import Store
from koordpy.controllers.queue import WorkQueue

from .expectations import Expectations
from .objects import Workload, owner_reference, selector_of

T = TypeVar("T", bound=KubeObject)


def controller_uid(obj: KubeObject) -> Iterable[str]:
    """Index: the UID of the controller."""
    owner = obj.metadata.controller
    return () if owner is None else (owner.uid,)


def orphaned_in(obj: KubeObject) -> Iterable[str]:
    """Index: the namespace of an object without a controller."""
    meta = obj.metadata
    return (meta.namespace,) if meta.controller is None and meta.deletion_timestamp is None else ()


def namespace_of(obj: KubeObject) -> Iterable[str]:
    """Index: the namespace."""
    return (obj.metadata.namespace,)


class Dependents(Generic[T]):
    """The objects of one type that the workloads of another control.

    Their changes put the owner's key into the queue. `adopts` is whether matching orphans are adopted.
    """

    def __init__(
        self,
        store: Store[T],
        owners: Store[Any],
        queue: WorkQueue,
        client: Client,
        expectations: Expectations | None = None,
        *,
        adopts: bool = True,
    ) -> None:
        self.store, self._owners, self._queue, self._client = store, owners, queue, client
        self._kind = resource_of(owners.type).kind
        self._expectations, self._adopts = expectations, adopts
        self._by_controller = store.index(controller_uid)
        self._orphans = store.index(orphaned_in)
        self._owners_in = owners.index(namespace_of)
        store.subscribe(self._added, self._updated, self._deleted)

    def of(self, owner: KubeObject) -> list[T]:
        """Return the objects that an owner controls."""
        return self._by_controller.get(owner.metadata.uid)

    async def claim(self, owner: Workload) -> list[T]:
        """Return the objects that an owner controls, after adopting and releasing some."""
        selector = selector_of(owner)
        kept = []
        deleted = owner.metadata.deletion_timestamp is not None
        for obj in self.of(owner):
            if selector.matches(obj.metadata.labels):
                kept.append(obj)
            elif not deleted:
                await self._release(owner, obj)
        if self._adopts and not deleted:
            for obj in self._orphans.get(owner.metadata.namespace):
                if selector.matches(obj.metadata.labels):
                    await self._adopt(owner, obj)
        return kept

    async def _adopt(self, owner: Workload, obj: T) -> None:
        patch = {"metadata": {"uid": obj.metadata.uid, "ownerReferences": [owner_reference(owner)]}}
        await self._patch(obj, patch)

    async def _release(self, owner: Workload, obj: T) -> None:
        rest = [
            {
                "apiVersion": reference.api_version,
                "kind": reference.kind,
                "name": reference.name,
                "uid": reference.uid,
            }
            for reference in obj.metadata.owner_references
            if reference.uid != owner.metadata.uid
        ]
        await self._patch(obj, {"metadata": {"uid": obj.metadata.uid, "ownerReferences": rest or None}})

    async def _patch(self, obj: T, patch: dict[str, Any]) -> None:
        with suppress(NotFound, Invalid):  # it was replaced, or is being deleted
            await self._client.patch_raw(
                resource_of(type(obj)), obj.metadata.namespace, obj.metadata.name, patch
            )

    # --- changes ---------------------------------------------------------------------------------

    def _added(self, obj: T) -> None:
        self._changed(obj, seen=True)

    def _updated(self, old: T, new: T) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        before, after = old.metadata.controller, new.metadata.controller
        if before is not None and (after is None or after.uid != before.uid):
            self._enqueue(before, old)
        self._changed(new, seen=new.metadata.deletion_timestamp is not None)

    def _deleted(self, obj: T) -> None:
        self._changed(obj, seen=True)

    def _changed(self, obj: T, *, seen: bool) -> None:
        owner = obj.metadata.controller
        if owner is not None:
            key = self._enqueue(owner, obj)
            if seen and key and self._expectations is not None:
                self._expectations.settle(key, obj.metadata.key)
        elif self._adopts:
            for candidate in self._owners_in.get(obj.metadata.namespace):
                if selector_of(candidate).matches(obj.metadata.labels):
                    self._queue.add(candidate.metadata.key)

    def _enqueue(self, owner: OwnerReference, obj: T) -> str:
        if owner.kind != self._kind:
            return ""
        key = f"{obj.metadata.namespace}/{owner.name}"
        self._queue.add(key)
        return key
