"""The network of a simulation behaves as one, where it has to."""

from koordpy.api.core import Namespace, Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.informers import Informers
from koordpy.embedded.apiserver import ApiServer
from koordpy.simulation.inprocess import ServerChannel
from tests.eventually import PATIENCE
from tests.integration.service.stage import pod_document, until


async def test_a_watch_that_is_cut_is_opened_again() -> None:
    server = ApiServer()
    await server.load()
    client = Client(ServerChannel(server))
    cluster = Cluster()
    pods = cluster.store(Pod)
    assert await client.get(Namespace, "", "default")
    async with Informers(cluster, client) as informers:
        await informers.wait_synced(PATIENCE)
        server.cut_watches()
        server.compact()
        await client.create_raw(resource_of(Pod), "default", pod_document("p"))
        await until(lambda: len(pods) == 1)
