"""Listing whole objects, page by page."""

from koordpy.api.core import Namespace
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.embedded.apiserver import ApiServer


async def test_whole_objects_come_page_by_page_with_their_kind() -> None:
    async with ApiServer() as server:
        client = Client(Connection.to(Access(server.url)))
        resource = resource_of(Namespace)
        for number in range(5):
            document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"n{number}"}}
            await client.create_raw(resource, "", document)
        found = [item async for item in client.list_raw(resource, limit=2)]
        assert [item["metadata"]["name"] for item in found if item["metadata"]["name"].startswith("n")] == [
            f"n{number}" for number in range(5)
        ]
        assert {(item["apiVersion"], item["kind"]) for item in found} == {("v1", "Namespace")}
        assert all(item["status"] == {"phase": "Active"} for item in found)
        await client.close()
