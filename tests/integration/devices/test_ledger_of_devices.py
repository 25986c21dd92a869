"""What pods hold of devices, over restarts, ends of pods and changes of the Device."""

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.device import Device
from koordpy.api.scheme import resource_of
from tests.integration.devices.stage import GPUS, NODE, DeviceStage, device, devices

GPU = {extension.GPU: "100"}


async def test_a_restart_restores_what_pods_and_reservations_hold(stage: DeviceStage) -> None:
    held = await stage.hold("held", GPU, "owner")
    first = await stage.run("first", GPU)
    assert set(devices(held)) | set(devices(first)) == set(range(GPUS))
    await stage.restart_koordpy()
    await stage.create("second", GPU)
    await stage.refusal("second")
    owner = await stage.run("owner", GPU, {"owner": "true"})
    assert devices(owner) == devices(held)


async def test_pods_that_end_or_are_deleted_give_back_their_gpus(stage: DeviceStage) -> None:
    for name in ("ends", "goes"):
        await stage.run(name, GPU)
    await stage.client.patch_status(Pod, "default", "ends", {"status": {"phase": "Succeeded"}})
    next_ = await stage.run("next", GPU)
    assert devices(next_) == devices(await stage.pod("ends"))
    await stage.delete_pod("goes")
    await stage.run("last", GPU)


async def test_a_device_that_comes_back_with_other_minors_gives_those_alone(stage: DeviceStage) -> None:
    assert set(devices(await stage.run("first", GPU))) == {0}
    await stage.client.delete(Device, "", NODE)
    await stage.create("waits", GPU)
    await stage.refusal("waits")
    document = device()
    for minor, info in zip((0, 5), document["spec"]["devices"], strict=True):
        info["minor"] = minor
    await stage.client.create_raw(resource_of(Device), "", document)
    await stage.node_of("waits")
    assert set(devices(await stage.pod("waits"))) == {5}
    await stage.create("more", GPU)
    await stage.refusal("more")


async def test_unhealthy_gpus_are_kept_by_their_pods_and_given_to_no_other(stage: DeviceStage) -> None:
    assert set(devices(await stage.run("first", GPU))) == {0}
    document = device()
    for info in document["spec"]["devices"]:
        info["health"] = False
    await stage.client.patch(Device, "", NODE, {"spec": document["spec"]})
    await stage.create("waits", GPU)
    assert "Insufficient" in await stage.refusal("waits")
    assert set(devices(await stage.pod("first"))) == {0}
    document["spec"]["devices"][1]["health"] = True
    await stage.client.patch(Device, "", NODE, {"spec": document["spec"]})
    await stage.node_of("waits")
    assert set(devices(await stage.pod("waits"))) == {1}
