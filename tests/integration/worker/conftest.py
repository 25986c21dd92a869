"""An API server with all custom resources, and a client of it."""

from collections.abc import AsyncIterator

import pytest

from koordpy import data
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.embedded.apiserver.server import ApiServer


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(crds=[data.deploy("crds")]) as made:
        yield made


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    made = Client(Connection.to(Access(server.url)))
    yield made
    await made.close()
