"""The pod templates that a StatefulSet or DaemonSet has had, as ControllerRevisions.

Source: Kubernetes, `pkg/controller/history`.
"""

from collections.abc import Collection
from typing import Any

from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.errors import AlreadyExists, NotFound
from koordpy.cluster.store import Store
from koordpy.controllers.queue import WorkQueue

from .controller import Context
from .dependents import Dependents
from .objects import ControllerRevision, Workload, owner_reference
from .template_hash import template_hash

Document = dict[str, Any]

HASH_LABEL = "controller-revision-hash"
_REVISION = resource_of(ControllerRevision)


class Revisions:
    """The ControllerRevisions of the workloads of one type."""

    def __init__(self, context: Context, owners: Store[Any], queue: WorkQueue) -> None:
        self._client = context.client
        store = context.cluster.store(ControllerRevision)
        self._owned = Dependents(store, owners, queue, context.client, adopts=False)

    def of(self, owner: Workload) -> list[ControllerRevision]:
        """Return the revisions of a workload, the oldest first."""
        return sorted(self._owned.of(owner), key=lambda item: (item.revision, item.metadata.name))

    async def current(self, owner: Workload) -> ControllerRevision:
        """Return the newest revision, that of the present template; it is made if it is missing."""
        data = _data(owner)
        known = self.of(owner)
        newest = max((item.revision for item in known), default=0)
        equal = next((item for item in reversed(known) if item.data == data), None)
        if equal is None:
            return await self._create(owner, data, newest + 1)
        if equal.revision < newest:  # the template was changed back
            meta = equal.metadata
            patch = {"metadata": {"uid": meta.uid}, "revision": newest + 1}
            changed = await self._client.patch_raw(_REVISION, meta.namespace, meta.name, patch)
            return decode(ControllerRevision, changed)
        return equal

    async def _create(self, owner: Workload, data: Document, number: int) -> ControllerRevision:
        hashed = template_hash(data, owner.status.get("collisionCount"))
        name = f"{owner.metadata.name}-{hashed}"
        labels = {**_labels(owner), HASH_LABEL: hashed}
        document = {
            "apiVersion": _REVISION.api_version,
            "kind": _REVISION.kind,
            "metadata": {
                "name": name,
                "namespace": owner.metadata.namespace,
                "labels": labels,
                "ownerReferences": [owner_reference(owner)],
            },
            "data": data,
            "revision": number,
        }
        try:
            made = await self._client.create_raw(_REVISION, owner.metadata.namespace, document)
        except AlreadyExists:
            return await self._client.get(ControllerRevision, owner.metadata.namespace, name)
        return decode(ControllerRevision, made)

    async def truncate(self, owner: Workload, live: Collection[str]) -> None:
        """Delete the oldest revisions beyond the history limit; `live` are hashes that pods have."""
        unused = [item for item in self.of(owner)[:-1] if hash_of(item) not in live]
        surplus = len(unused) - int(owner.spec.get("revisionHistoryLimit", 10))
        for item in unused[: max(surplus, 0)]:
            meta = item.metadata
            try:
                await self._client.delete(ControllerRevision, meta.namespace, meta.name, uid=meta.uid)
            except NotFound:
                continue


def hash_of(revision: ControllerRevision) -> str:
    """Return the hash that pods of a revision have in a label."""
    return revision.metadata.labels.get(HASH_LABEL, "")


def template_of(revision: ControllerRevision) -> Document:
    """Return the pod template of a revision."""
    template: Document = dict((revision.data.get("spec") or {}).get("template") or {})
    template.pop("$patch", None)
    return template


def _data(owner: Workload) -> Document:
    """Return the patch that makes a workload have its present template."""
    return {"spec": {"template": {**(owner.spec.get("template") or {}), "$patch": "replace"}}}


def _labels(owner: Workload) -> dict[str, str]:
    metadata = (owner.spec.get("template") or {}).get("metadata") or {}
    return dict(metadata.get("labels") or {})
