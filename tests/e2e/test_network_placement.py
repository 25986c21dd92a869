"""Gangs that want a place in the network, on etcd, kube-apiserver and kube-scheduler."""

import asyncio
from pathlib import Path

from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from tests.e2e.controlplane.plane import ControlPlane
from tests.integration.service.test_network_placement import Stage, beside, serving

MUST_SHARE_A_BLOCK = [{"layer": "BlockLayer", "strategy": "MustGather"}]


async def test_kube_scheduler_binds_a_gang_to_its_planned_nodes_that_it_does_not_look_at_by_itself(
    tmp_path: Path,
) -> None:
    with ControlPlane() as plane:
        plane.install_crds()
        client = Client(Connection.find(str(plane.kubeconfig), None, None))
        stage = Stage(client)
        large = {f"b{number:02}": ("s1", 20) for number in range(7)}
        await stage.build({**large, "last": ("s2", 10)})
        process = await serving(tmp_path, {"kubeconfig": str(plane.kubeconfig)})
        configuration = beside(process.listeners["extender"].url)
        configuration["percentageOfNodesToScore"] = 5  # 100 of the 150 nodes, as it looks at no fewer
        await asyncio.to_thread(plane.start_scheduler, configuration)
        try:
            await stage.add_gang("wide", 10, MUST_SHARE_A_BLOCK)

            async def is_bound() -> bool:
                return all(await stage.nodes_of("wide"))

            await stage.until(is_bound, "the gang is not bound")
            assert await stage.nodes_of("wide") == [f"last-n{number}" for number in range(10)]

            async def is_written() -> bool:
                found = await client.get(ClusterNetworkTopology, "", "default")
                return {each.node_num for each in found.status.detail_status} == {150, 140, 20, 10}

            await stage.until(is_written, "the status of the network is not written")
        finally:
            await asyncio.to_thread(plane.stop_scheduler)
            await process.stop()
            await client.close()
