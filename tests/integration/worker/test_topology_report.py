"""The node agent reports the topology of its node."""

from pathlib import Path
from typing import Any

import msgspec

from koordpy.api.core import Node
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import NotFound
from koordpy.compose.parts.node_agent import NodeAgentPart
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer
from tests.eventually import becomes_true
from tests.integration.worker.stage import NodeFiles, agent_settings, create, working
from tests.processes import worker_process

TOPOLOGIES = resource_of(NodeResourceTopology)


def node_agent(server: ApiServer, files: NodeFiles, gates: dict[str, bool] | None = None) -> Process:
    settings = agent_settings(server.url, nodeName="n1", **files.settings)
    return worker_process(settings.model_copy(update={"feature_gates": gates or {}}), "agent")


async def topology(client: Client) -> dict[str, Any]:
    try:
        return await client.get_raw(TOPOLOGIES, "", "n1")
    except NotFound:
        return {}


async def test_a_missing_topology_is_created_and_one_that_others_change_is_put_right(
    tmp_path: Path, server: ApiServer, client: Client
) -> None:
    node = await client.create_raw(resource_of(Node), "", {"metadata": {"name": "n1"}})
    async with working(node_agent(server, NodeFiles(tmp_path, 2))):
        written: dict[str, Any] = {}

        async def reported(pools: str) -> bool:
            written.clear()
            written.update(await topology(client))
            annotations = written.get("metadata", {}).get("annotations", {})
            return annotations.get("node.koordinator.sh/cpu-shared-pools") == pools

        pools = msgspec.json.encode(
            [{"socket": 0, "node": 0, "cpuset": "0-3"}, {"socket": 1, "node": 1, "cpuset": "4-7"}]
        ).decode()
        await becomes_true(lambda: reported(pools))
        owner = written["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["uid"]) == ("Node", node["metadata"]["uid"])
        assert [zone["name"] for zone in written["zones"]] == ["node-0", "node-1"]

        wrong = {"metadata": {"annotations": {"node.koordinator.sh/cpu-shared-pools": "[]", "mine": "kept"}}}
        await client.patch(NodeResourceTopology, "", "n1", wrong)
        await becomes_true(lambda: reported(pools))
        assert written["metadata"]["annotations"]["mine"] == "kept"


async def test_without_the_gate_nothing_is_written(tmp_path: Path, server: ApiServer, client: Client) -> None:
    await create(client, resource_of(Node), {"metadata": {"name": "n1"}})
    worker = node_agent(server, NodeFiles(tmp_path, 2), {"NodeTopologyReport": False})
    async with working(worker):
        agent = worker.part(NodeAgentPart).agent

        async def computed() -> bool:
            return agent.states.topology() is not None

        await becomes_true(computed)
        assert await topology(client) == {}
