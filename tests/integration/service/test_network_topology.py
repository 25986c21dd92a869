"""The network topology manager in `koordpy serve`: the leader writes what it finds."""

import asyncio
from pathlib import Path
from typing import Any

from koordpy.api.core import Node
from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.api.scheme import resource_of
from koordpy.cluster.network_topology import manager
from koordpy.compose.parts.extender import ExtenderPart
from tests.eventually import PATIENCE
from tests.integration.service.stage import Stage, serving

LAYERS = [
    {"topologyLayer": "spine", "parentTopologyLayer": "ClusterTopologyLayer", "labelKey": ["spine"]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "spine"},
]
ON: dict[str, Any] = {"extender": {"networkTopologyManager": True, "leaderElect": False}}


async def describe_network(stage: Stage) -> None:
    resource = resource_of(ClusterNetworkTopology)
    document = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "default"},
        "spec": {"networkTopologySpec": LAYERS},
    }
    await stage.client.create_raw(resource, "", document)
    for name, spine in (("n0", "s1"), ("n1", "s1"), ("n2", "s2")):
        await stage.add_node(name)
        await stage.client.patch(Node, "", name, {"metadata": {"labels": {"spine": spine}}})


async def counts(stage: Stage) -> dict[str, int]:
    found = await stage.client.get(ClusterNetworkTopology, "", "default")
    return {detail.topology_info.topology_name: detail.node_num for detail in found.status.detail_status}


async def test_the_leader_writes_the_members_of_all_layers_and_does_not_write_them_again(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(manager, "PERIOD", 0.05)
    async with serving(tmp_path, **ON) as stage:
        await describe_network(stage)
        async with asyncio.timeout(PATIENCE):
            while await counts(stage) != {"": 3, "s1": 2, "s2": 1}:
                await asyncio.sleep(0.02)
        version = (await stage.client.get(ClusterNetworkTopology, "", "default")).metadata.resource_version
        await asyncio.sleep(0.3)
        found = await stage.client.get(ClusterNetworkTopology, "", "default")
        assert found.metadata.resource_version == version
        framework = next(iter(stage.profiles.frameworks.values()))
        assert framework.handle.network_topology is stage.process.part(ExtenderPart).network_topology


async def test_it_is_off_unless_it_is_switched_on(tmp_path: Path) -> None:
    async with serving(tmp_path) as stage:
        assert stage.process.part(ExtenderPart).network_topology is None
        assert ClusterNetworkTopology not in {store.type for store in stage.process.cluster.stores}
