"""Pods that preempt others for GPUs, beside a stock scheduler."""

from typing import Any

from koordpy.api import extension
from koordpy.cluster.errors import NotFound
from tests.integration.devices.stage import CRITICAL, GPUS, NODE, DeviceStage, devices, uses

ALL = {extension.GPU: str(100 * GPUS)}
OWNER = "uses-reserved-gpus"
OWNS = {OWNER: "true"}
HERE: dict[str, Any] = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [NODE]}]}
                ]
            }
        }
    }
}


async def assert_gone(stage: DeviceStage, name: str) -> None:
    async def gone() -> bool:
        try:
            await stage.pod(name)
        except NotFound:
            return True
        return False

    await stage.until(gone, f"pod {name} is still there")


async def test_a_pod_preempts_for_all_gpus_of_a_node(stage: DeviceStage) -> None:
    await stage.run("probe", {extension.GPU: "100"})
    await stage.delete_pod("probe")
    await stage.run("low", ALL, **HERE)
    high = await stage.run("high", ALL, priorityClassName=CRITICAL, **HERE)
    await assert_gone(stage, "low")
    assert set(devices(high)) == set(range(GPUS))


async def test_an_owner_preempts_another_owner_in_a_reservation(stage: DeviceStage) -> None:
    reservation = await stage.hold("gpus", ALL, OWNER, {"nodeName": NODE}, allocateOnce=False)
    low = await stage.run("low", ALL, OWNS, **HERE)
    assert uses(low) == "gpus"
    high = await stage.run("high", ALL, OWNS, priorityClassName=CRITICAL, **HERE)
    await assert_gone(stage, "low")
    assert uses(high) == "gpus"
    assert devices(high) == devices(reservation)
    await stage.owned_by("gpus", high)
