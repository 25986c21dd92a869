"""Creating objects of any kind in an embedded API server, from documents, through its API.

The server's catalogue replaces discovery.
"""

from contextlib import suppress
from typing import Any

import msgspec

from koordpy.cluster.client import Client
from koordpy.cluster.errors import AlreadyExists, ApiError

from .apiserver.catalog import Catalog

Document = dict[str, Any]

_MERGE = "application/merge-patch+json"


class Objects:
    """Creates and deletes objects; namespaces that they need are created first."""

    def __init__(self, catalog: Catalog, client: Client) -> None:
        self._catalog, self._client = catalog, client

    async def create_all(self, documents: list[Document]) -> list[Document]:
        """Create objects, as `create` does, in their order."""
        return [await self.create(document) for document in documents]

    async def create(self, document: Document) -> Document:
        """Create one object with its status; an existing one is merged with it. Return the stored object.

        Raises ApiError naming the object, LookupError for a kind that is not served.
        """
        metadata = document.setdefault("metadata", {})
        path, is_namespaced = self._collection(document)
        if is_namespaced:
            await self.ensure_namespace(metadata.setdefault("namespace", "default"))
            path = path.replace("{namespace}", metadata["namespace"])
        body = msgspec.json.encode(document)
        try:
            stored = await self._client.send("POST", path, body)
        except AlreadyExists:
            stored = await self._client.send("PATCH", f"{path}/{metadata['name']}", body, content_type=_MERGE)
        found: Document = msgspec.json.decode(stored.body)
        if "status" in document and "status" not in found:
            name = found["metadata"]["name"]
            status = msgspec.json.encode({"status": document["status"]})
            with suppress(ApiError):  # a kind without a status subresource has stored it, or has no status
                await self._client.send("PATCH", f"{path}/{name}/status", status, content_type=_MERGE)
        return found

    async def delete(self, document: Document) -> None:
        """Delete an object immediately."""
        metadata = document["metadata"]
        path, _ = self._collection(document)
        path = path.replace("{namespace}", metadata.get("namespace", "default"))
        await self._client.send("DELETE", f"{path}/{metadata['name']}?gracePeriodSeconds=0", repeatable=True)

    async def ensure_namespace(self, name: str) -> None:
        """Create a namespace unless it is there."""
        served = self._catalog.find("", "v1", "namespaces")
        assert served is not None
        if served.table.get(name) is None:
            body = msgspec.json.encode({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            with suppress(AlreadyExists):
                await self._client.send("POST", "/api/v1/namespaces", body)

    def _collection(self, document: Document) -> tuple[str, bool]:
        """Return the path of an object's collection, and whether it is namespaced."""
        version, kind = document.get("apiVersion"), document.get("kind")
        for served in self._catalog:
            if served.kind == kind and served.api_version == version:
                root = f"/apis/{version}" if served.group else f"/api/{version}"
                if served.namespaced:
                    return f"{root}/namespaces/{{namespace}}/{served.plural}", True
                return f"{root}/{served.plural}", False
        raise LookupError(f"objects of kind {kind!r} in apiVersion {version!r} are not served")
