"""Requests to the API server, typed by struct.

Objects are read as slim structs that lack most fields, so they are never written back whole: changes are
patches and subresource calls. Only complete documents are written whole (`create`, and `update` of a
document). How requests are sent, and when they are repeated: `koordpy.cluster.sender`. Errors:
`koordpy.cluster.errors`.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import Resource, decode, encode, resource_of
from koordpy.lib.http1 import HttpError, Response

from . import bodies
from .connection import Channel
from .errors import Conflict, ConnectionFailed, NotFound, error_of
from .paths import object_path, query_of
from .sender import ATTEMPTS, Sender, count
from .watch import Watch
from .wire import Page, decode_page

T = TypeVar("T", bound=KubeObject)

FIELD_MANAGER = "koordpy"

PAGE_SIZE = 500
"""The page size of lists, as in client-go."""

_ERROR_BODY = 64 << 10


class PatchType(StrEnum):
    """Content types of patches."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


class Client:
    """Asynchronous requests of one process.

    `timeout` is per try, in seconds. With `dry_run` no request changes anything (`dryRun=All`).
    """

    def __init__(
        self,
        connection: Channel,
        *,
        timeout: float = 30.0,
        dry_run: bool = False,
        attempts: int = ATTEMPTS,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.connection = connection
        self.dry_run = dry_run
        self._timeout = timeout
        self.send = Sender(connection, timeout=timeout, attempts=attempts, rng=rng, sleep=sleep).send
        self._writing = query_of({"fieldManager": FIELD_MANAGER, "dryRun": "All" if dry_run else None})

    def __repr__(self) -> str:
        return f"Client({self.connection.server})"

    async def close(self) -> None:
        """Close all connections."""
        await self.connection.close()

    # --- reading ---------------------------------------------------------------------------------

    async def get(self, type_: type[T], namespace: str, name: str) -> T:
        """Return an object; pass an empty namespace for cluster-scoped kinds."""
        path = object_path(resource_of(type_), namespace, name)
        return decode(type_, (await self.send("GET", path)).body)

    async def get_raw(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        """Return an object with all its fields."""
        return _document(await self.send("GET", object_path(resource, namespace, name)))

    async def list_page(
        self,
        type_: type[T],
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_SIZE,
        continue_: str = "",
        resource_version: str = "",
    ) -> Page[T]:
        """Return one page of a list (all namespaces when none is given); Gone when `continue_` is too old."""
        query = query_of(
            {
                "labelSelector": label_selector,
                "fieldSelector": field_selector,
                "limit": str(limit) if limit else "",
                "continue": continue_,
                "resourceVersion": resource_version,
            }
        )
        response = await self.send("GET", object_path(resource_of(type_), namespace) + query)
        return decode_page(type_, response.body)

    async def list_all(
        self, type_: type[T], namespace: str = "", *, label_selector: str = "", field_selector: str = ""
    ) -> list[T]:
        """Return all objects, page by page; malformed ones are left out."""
        items: list[T] = []
        continue_ = ""
        while True:
            page = await self.list_page(
                type_,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                continue_=continue_,
            )
            items += page.items
            continue_ = page.metadata.continue_
            if not continue_:
                return items

    async def list_raw(
        self, resource: Resource, namespace: str = "", *, limit: int = PAGE_SIZE
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield all objects with all their fields, page by page; kind and apiVersion are filled in."""
        continue_ = ""
        while True:
            query = query_of({"limit": str(limit), "continue": continue_})
            page = _document(await self.send("GET", object_path(resource, namespace) + query))
            for item in page.get("items") or ():
                yield {"apiVersion": resource.api_version, "kind": resource.kind, **item}
            continue_ = (page.get("metadata") or {}).get("continue") or ""
            if not continue_:
                return

    @asynccontextmanager
    async def watch(
        self,
        type_: type[T],
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 300,
    ) -> AsyncIterator[Watch]:
        """Follow changes after a resource version, with bookmarks; the server ends it after the timeout."""
        query = query_of(
            {
                "watch": "1",
                "allowWatchBookmarks": "true",
                "resourceVersion": resource_version,
                "labelSelector": label_selector,
                "fieldSelector": field_selector,
                "timeoutSeconds": str(timeout_seconds),
            }
        )
        path = object_path(resource_of(type_), namespace) + query
        try:
            async with self.connection.stream("GET", path, timeout=self._timeout) as stream:
                count("WATCH", stream.status).inc()
                if stream.status != 200:
                    body = await stream.read_all(_ERROR_BODY, self._timeout)
                    raise error_of("GET", path, stream.status, body, stream.header("retry-after"))
                yield Watch(type_, stream)
        except HttpError as error:
            raise ConnectionFailed("GET", path, error, sent=error.sent) from error

    # --- writing ---------------------------------------------------------------------------------

    async def create(self, obj: T, *, dry_run: bool = False) -> T:
        """Create an object from a struct; return the object as the server stored it."""
        resource = resource_of(type(obj))
        path = object_path(resource, obj.metadata.namespace) + self._write_query(dry_run)
        return decode(type(obj), (await self.send("POST", path, encode(obj))).body)

    async def create_raw(
        self, resource: Resource, namespace: str, document: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        """Create an object from a document."""
        path = object_path(resource, namespace) + self._write_query(dry_run)
        return _document(await self.send("POST", path, msgspec.json.encode(document)))

    async def update_raw(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        document: Mapping[str, Any],
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Replace an object by a whole document; Conflict when its resourceVersion is not the current one."""
        path = object_path(resource, namespace, name, subresource) + self._write_query(dry_run)
        versioned = bool(document.get("metadata", {}).get("resourceVersion"))
        body = msgspec.json.encode(document)
        return _document(await self.send("PUT", path, body, repeatable=not versioned))

    async def patch(
        self,
        type_: type[T],
        namespace: str,
        name: str,
        patch: Any,
        kind: PatchType = PatchType.MERGE,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> T:
        """Patch an object; `patch` is a document, a list of operations, or bytes.

        A merge patch with `metadata.resourceVersion` is refused with Conflict when the object has changed.
        """
        response = await self._patch(resource_of(type_), namespace, name, patch, kind, subresource, dry_run)
        return decode(type_, response.body)

    async def patch_status(
        self, type_: type[T], namespace: str, name: str, patch: Any, kind: PatchType = PatchType.MERGE
    ) -> T:
        """Patch the status subresource; the patch has the whole document's shape (`{"status": ...}`)."""
        return await self.patch(type_, namespace, name, patch, kind, subresource="status")

    async def patch_raw(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        kind: PatchType = PatchType.MERGE,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Patch an object and return all its fields."""
        return _document(await self._patch(resource, namespace, name, patch, kind, subresource, dry_run))

    async def delete(
        self,
        type_: type[KubeObject],
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
        options: Mapping[str, Any] | None = None,
        repeatable: bool = True,
        dry_run: bool = False,
    ) -> None:
        """Delete an object; with `uid` or `resource_version` only that very one (else Conflict)."""
        await self.delete_raw(
            resource_of(type_),
            namespace,
            name,
            uid=uid,
            resource_version=resource_version,
            grace_period_seconds=grace_period_seconds,
            propagation_policy=propagation_policy,
            options=options,
            repeatable=repeatable,
            dry_run=dry_run,
        )

    async def delete_raw(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
        options: Mapping[str, Any] | None = None,
        repeatable: bool = True,
        dry_run: bool = False,
    ) -> None:
        """Delete an object of any resource; `options` are further `metav1.DeleteOptions`."""
        document = bodies.delete_options(uid, resource_version, grace_period_seconds, options)
        if propagation_policy:
            document["propagationPolicy"] = propagation_policy
        path = object_path(resource, namespace, name) + ("?dryRun=All" if dry_run or self.dry_run else "")
        body = msgspec.json.encode(document)
        tries: list[bool] = []
        try:
            await self.send("DELETE", path, body, repeatable=repeatable, doubtful=tries)
        except NotFound:
            if not tries:  # after a lost answer, not found is success
                raise

    async def bind(
        self,
        pod: Pod,
        node_name: str,
        annotations: Mapping[str, str] | None = None,
        *,
        dry_run: bool = False,
    ) -> None:
        """Bind a pod to a node; annotations are merged into the pod's in the same write.

        Conflict if the pod has another UID by now, is already assigned, deleted or gated. After a lost answer
        the pod is read to find out.
        """
        meta = pod.metadata
        path = object_path(_PODS, meta.namespace, meta.name, "binding") + self._write_query(dry_run)
        body = bodies.binding(pod, node_name, annotations)
        tries: list[bool] = []
        try:
            await self.send("POST", path, body, repeatable=True, doubtful=tries)
        except Conflict:
            if not tries:
                raise
            now = await self.get(Pod, meta.namespace, meta.name)
            if now.metadata.uid != meta.uid or now.spec.node_name != node_name:
                raise

    async def evict(
        self,
        pod: Pod,
        *,
        grace_period_seconds: int | None = None,
        delete_options: Mapping[str, Any] | None = None,
        repeatable: bool = True,
        dry_run: bool = False,
    ) -> None:
        """Evict a pod (policy/v1). TooManyRequests, at once, when a PodDisruptionBudget forbids it.

        `delete_options` is a `metav1.DeleteOptions`. The pod's UID is always a precondition, so that a
        successor of the same name is never evicted: Conflict. Unless `repeatable`, a request that may have
        taken effect is not repeated; the error says whether it may.
        """
        meta = pod.metadata
        document = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": bodies.delete_options(meta.uid, "", grace_period_seconds, delete_options),
        }
        path = object_path(_PODS, meta.namespace, meta.name, "eviction") + self._write_query(dry_run)
        tries: list[bool] = []
        try:
            await self.send(
                "POST",
                path,
                msgspec.json.encode(document),
                repeatable=repeatable,
                doubtful=tries,
                wait_on_429=False,
            )
        except NotFound:
            if not tries:
                raise

    async def _patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        patch: Any,
        kind: PatchType,
        subresource: str,
        dry_run: bool,
    ) -> Response:
        path = object_path(resource, namespace, name, subresource) + self._write_query(dry_run)
        body = patch if isinstance(patch, bytes) else msgspec.json.encode(patch)
        repeatable = kind is not PatchType.JSON and b'"resourceVersion"' not in body
        return await self.send("PATCH", path, body, content_type=kind.value, repeatable=repeatable)

    def _write_query(self, dry_run: bool) -> str:
        return f"{self._writing}&dryRun=All" if dry_run and not self.dry_run else self._writing


_PODS = resource_of(Pod)


def _document(response: Response) -> dict[str, Any]:
    return msgspec.json.decode(response.body, type=dict[str, Any])
