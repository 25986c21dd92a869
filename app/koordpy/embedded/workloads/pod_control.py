"""Creates and deletes the pods of workloads, in batches, announced to the expectations.

Source: Kubernetes, `pkg/controller/controller_utils.go`.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import AlreadyExists, ApiError, ConnectionFailed, Forbidden, NotFound, ServerError
from koordpy.cluster.events import NORMAL, WARNING, Recorder

from .expectations import Expectations
from .objects import Workload, owner_reference
from .template_hash import suffix

log = logging.getLogger(__name__)

Document = dict[str, Any]

BURST = 500
"""The most pods that one reconciliation creates or deletes."""
_AT_ONCE = 64
_POD = resource_of(Pod)


def pod_of(template: Document, owner: Workload, name: str, *, generate_name: str = "") -> Document:
    """Return the pod of a template, controlled by a workload."""
    given = template.get("metadata") or {}
    metadata: Document = {"name": name, "namespace": owner.metadata.namespace}
    for field in ("labels", "annotations"):
        metadata[field] = dict(given.get(field) or {})
    if given.get("finalizers"):
        metadata["finalizers"] = list(given["finalizers"])
    if generate_name:
        metadata["generateName"] = generate_name
    metadata["ownerReferences"] = [owner_reference(owner)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template.get("spec") or {})}


class PodControl:
    """Writes pods, and records events about it with their owner."""

    def __init__(
        self, client: Client, expectations: Expectations, events: Recorder, rng: random.Random
    ) -> None:
        self._client, self._expectations, self._events = client, expectations, events
        self._rng = rng

    async def create(self, owner: Workload, documents: Sequence[Document]) -> int:
        """Create pods in batches of 1, 2, 4 ...; stop after a batch with a failure, and raise its error.

        Returns how many were created, which differs from the number of documents only if the namespace is
        being deleted.
        """
        done, size = 0, 1
        while done < len(documents):
            batch = documents[done : done + size]
            self._expectations.announce(owner.metadata.key, map(_key, batch))
            results = await asyncio.gather(
                *(self._create(owner, document) for document in batch), return_exceptions=True
            )
            for result in results:
                if isinstance(result, BaseException):
                    raise result
            if not all(results):
                return done
            done += len(batch)
            size = min(size * 2, _AT_ONCE)
        return done

    async def _create(self, owner: Workload, document: Document) -> bool:
        key = _key(document)
        name, namespace = document["metadata"]["name"], document["metadata"]["namespace"]
        try:
            await self._client.create_raw(_POD, namespace, document)
        except AlreadyExists:
            self._expectations.settle(owner.metadata.key, key)
            prefix = document["metadata"].get("generateName")
            if not prefix:
                raise
            renamed = {**document, "metadata": {**document["metadata"], "name": prefix + suffix(self._rng)}}
            self._expectations.announce(owner.metadata.key, [_key(renamed)])
            return await self._create(owner, renamed)
        except NotFound:
            self._expectations.settle(owner.metadata.key, key)
            raise
        except (ServerError, ConnectionFailed) as error:
            if isinstance(error, ConnectionFailed) and not error.sent:
                self._expectations.settle(owner.metadata.key, key)
            else:  # it may have been created
                self._expectations.doubt(owner.metadata.key)
            raise
        except ApiError as error:
            self._expectations.settle(owner.metadata.key, key)
            if isinstance(error, Forbidden) and "being terminated" in error.message:
                return False
            self._events.event(owner, WARNING, "FailedCreate", f"Error creating: {error.message}")
            raise
        self._events.event(owner, NORMAL, "SuccessfulCreate", f"Created pod: {name}")
        return True

    async def delete(self, owner: Workload, pods: Sequence[Pod]) -> None:
        """Delete pods gracefully; raise the first error."""

        async def delete(pod: Pod) -> None:
            await self._delete(owner, pod)

        self._expectations.announce(owner.metadata.key, (pod.metadata.key for pod in pods))
        await in_batches(pods, delete)

    async def _delete(self, owner: Workload, pod: Pod) -> None:
        meta = pod.metadata
        try:
            await self._client.delete(Pod, meta.namespace, meta.name, uid=meta.uid)
        except NotFound:
            self._expectations.settle(owner.metadata.key, meta.key)
            return
        except (ApiError, ConnectionFailed) as error:
            self._expectations.settle(owner.metadata.key, meta.key)
            self._events.event(owner, WARNING, "FailedDelete", f"Error deleting: {error}")
            raise
        self._events.event(owner, NORMAL, "SuccessfulDelete", f"Deleted pod: {meta.name}")


async def in_batches(items: Sequence[Any], do: Callable[[Any], Awaitable[None]]) -> None:
    """Do something with all items, a bounded number at a time; raise the first error of a batch."""
    for start in range(0, len(items), _AT_ONCE):
        results = await asyncio.gather(
            *(do(item) for item in items[start : start + _AT_ONCE]), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result


def _key(document: Document) -> str:
    return f"{document['metadata']['namespace']}/{document['metadata']['name']}"
