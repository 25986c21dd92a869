"""What the debug API says about the CPUs and NUMA nodes of a node."""

import httpx

from koordpy.api import extension
from koordpy.lib import cpuset
from tests.eventually import PATIENCE
from tests.integration.devices.stage import CPUS, NODE, PROD, DeviceStage, cpus

LSR = {extension.LABEL_POD_QOS: "LSR"}


async def test_a_node_shows_who_has_which_cpus_and_what_is_left(stage: DeviceStage) -> None:
    await stage.restart_koordpy(parts=("extender", "debug"))
    await stage.label_node("SingleNUMANode")
    pod = await stage.run("lsr", {"cpu": "4", "memory": "1Gi"}, LSR, priorityClassName=PROD)
    url = f"{stage.process.listeners['debug'].url}/apis/v1/plugins/NodeNUMAResource/nodes"
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as http:
        found = (await http.get(f"{url}/{NODE}")).json()
        unknown = await http.get(f"{url}/unknown")
    assert (unknown.status_code, "unknown" in unknown.text) == (404, True)
    mine = cpus(pod)
    [numa_node] = {cpu // (CPUS // 2) for cpu in mine}
    assert found["availableCPUs"] == cpuset.render(set(range(CPUS)) - mine)
    assert found["numaTopologyPolicy"] == "SingleNUMANode"
    assert set(found["allocatedCPUs"]) == {str(cpu) for cpu in mine}
    [held] = found["allocatedPods"]
    assert (held["name"], held["cpuset"]) == ("lsr", cpuset.render(mine))
    assert found["allocatedNUMANodeResources"] == [
        {"node": numa_node, "resources": {"cpu": "4", "memory": "1Gi"}}
    ]
    left = {each["node"]: each["resources"]["cpu"] for each in found["remainingNUMANodeResources"]}
    assert left == {numa_node: "4", 1 - numa_node: "8"}
