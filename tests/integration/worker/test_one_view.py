"""A process lists and watches each type once, however many of its parts read it."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy import settings
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.wire import Answer, Request
from tests.integration.service.stage import CRDS, until
from tests.integration.worker.stage import NodeFiles, create, working
from tests.integration.worker.test_descheduler import CONFIG
from tests.processes import worker_process


class CountingServer(ApiServer):
    """An API server that counts the lists and watches it gets, by resource."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.lists: Counter[str] = Counter()
        self.watches: Counter[str] = Counter()
        self.selectors: dict[str, str] = {}

    def handle(self, request: Request) -> Answer | Coroutine[Any, Any, Answer]:
        resource, query = request.path.rpartition("/")[2], request.query
        if request.method == "GET" and ("watch" in query or "limit" in query):
            (self.watches if query.get("watch") in ("1", "true") else self.lists)[resource] += 1
            self.selectors[resource] = query.get("fieldSelector", "")
        return super().handle(request)


@pytest.mark.parametrize(
    ("parts", "selector"),
    [(("descheduler", "controllers", "agent"), ""), (("agent",), "spec.nodeName=n1")],
    ids=["together", "the agent alone"],
)
async def test_each_type_is_listed_and_watched_once(
    tmp_path: Path, parts: tuple[str, ...], selector: str
) -> None:
    file = tmp_path / "descheduler.yaml"
    file.write_text(yaml.safe_dump({**CONFIG, "dryRun": True}))
    async with CountingServer(crds=CRDS) as server:
        client = Client(Connection.to(Access(server.url)))
        await create(client, resource_of(Node), {"metadata": {"name": "n1"}})
        for name, node in (("own", "n1"), ("other", "n2")):
            spec: dict[str, Any] = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
            document = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
            await create(client, resource_of(Pod), document)
        await client.close()
        found = settings.load(
            None,
            {
                "client": {"server": server.url},
                "debug": {"port": 0},
                "featureGates": {"ColocationProfileController": True},
                "worker": {"leaderElect": False, "descheduler": {"config": str(file)}},
                "agent": {"nodeName": "n1", **NodeFiles(tmp_path, 2).settings},
            },
        )
        process = worker_process(found, *parts)
        async with working(process):
            followed = {resource_of(store.type).plural for store in process.cluster.stores}
            assert {"pods", "nodes", "nodeslos"} <= followed
            await until(lambda: process.informers.synced and server.watches.keys() >= followed)
            await asyncio.sleep(0.1)  # a second informer would have begun by now
            assert server.lists == dict.fromkeys(followed, 1)
            assert server.watches == dict.fromkeys(followed, 1)
            assert server.selectors["pods"] == selector
            [pods] = [store for store in process.cluster.stores if store.type is Pod]
            assert {pod.metadata.name for pod in pods} == ({"own"} if selector else {"own", "other"})
