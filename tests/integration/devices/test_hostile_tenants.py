"""Tenants who write anything into their annotations: others get their GPUs, and no GPU is given away twice.

Every moment of the cluster is audited (`tests/audited.py`).
"""

import json

from koordpy.api import extension
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from tests.integration.devices.stage import GPUS, NODE, SCHEDULER, DeviceStage, container, devices

PREFIX = "scheduling.koordinator.sh/"
DEVICES = extension.ANNOTATION_DEVICE_ALLOCATED
HINT = extension.ANNOTATION_DEVICE_ALLOCATE_HINT
JOINT = extension.ANNOTATION_DEVICE_JOINT_ALLOCATE
PARTITION = extension.ANNOTATION_GPU_PARTITION_SPEC
WHOLE = {extension.GPU_CORE: "100", extension.GPU_MEMORY_RATIO: "100", extension.GPU_MEMORY: "16Gi"}
GPU, ALL = {extension.GPU: "100"}, {extension.GPU: str(100 * GPUS)}


def claim(*minors: int, **amounts: str) -> str:
    return json.dumps({"gpu": [{"minor": minor, "resources": WHOLE | amounts} for minor in minors]})


HOSTILE: dict[str, dict[str, str]] = {
    "claims-all": {DEVICES: claim(*range(GPUS))},
    "claims-less-than-nothing": {DEVICES: claim(0).replace('"100"', '"-100"')},
    "claims-more-than-there-is": {DEVICES: claim(0, -1, 2**31 - 1).replace('"100"', '"1e400"')},
    "claims-very-much": {DEVICES: json.dumps({"gpu": [{"minor": minor} for minor in range(9000)]})},
    "claims-many-types": {DEVICES: json.dumps({f"t{number}": [{"minor": 0}] for number in range(9000)})},
    "claims-nonsense": {DEVICES: "[" * 50_000},
    "hints-very-much": {
        HINT: json.dumps(
            {
                "gpu": {
                    "selector": {
                        "matchExpressions": [{"key": "a", "operator": "DoesNotExist"} for _ in range(4000)]
                    }
                }
            }
        )
    },
    "hints-many-types": {
        HINT: json.dumps({f"t{number}": {"allocateStrategy": "x"} for number in range(4000)})
    },
    "hints-nonsense": {HINT: '{"gpu":{"selector":{"matchExpressions":[{"key":"","operator":"?"}]}}}'},
    "joins-very-much": {
        JOINT: json.dumps({"deviceTypes": ["gpu", "rdma"] * 9000, "requiredScope": "SamePCIe"})
    },
    "wants-a-huge-partition": {PARTITION: '{"allocatePolicy":"Restricted","ringBusBandwidth":"1e3999"}'},
    "wants-nonsense": {PARTITION: '{"allocatePolicy":1}'},
    "is-reserved-nonsense": {f"{PREFIX}reservation-allocated": '{"name":"x","uid":"y"}'},
    "needs-a-nonsense-reservation": {f"{PREFIX}reservation-affinity": '{"reservationSelector":{"a":"b"}}'},
}


UNREADABLE = ("claims-very-much", "claims-many-types", "claims-nonsense")
NEVER_BOUND = (*UNREADABLE, "needs-a-nonsense-reservation", "is-reserved-nonsense")


async def test_annotations_of_tenants_take_no_gpu_from_others(stage: DeviceStage) -> None:
    for name, annotations in HOSTILE.items():
        await stage.create(f"cpu-{name}", {"cpu": "1m"}, annotations=annotations)
    for name in HOSTILE:
        if name not in NEVER_BOUND:
            await stage.node_of(f"cpu-{name}")
            assert devices(await stage.pod(f"cpu-{name}")) == {}
    for name in UNREADABLE:
        assert "device-allocated" in await stage.refusal(f"cpu-{name}")
    owner = await stage.run("owner", ALL)
    assert set(devices(owner)) == set(range(GPUS))


async def test_pods_with_gpus_and_any_annotations_get_no_more_than_there_is(stage: DeviceStage) -> None:
    for name, annotations in HOSTILE.items():
        await stage.create(f"gpu-{name}", {extension.GPU: "10"}, annotations=annotations)
    await stage.node_of("gpu-claims-all")
    for name in HOSTILE:
        await stage.delete_pod(f"gpu-{name}")
    owner = await stage.run("owner", ALL)
    assert set(devices(owner)) == set(range(GPUS))


async def test_a_claim_of_a_pod_that_bypasses_the_scheduler_ends_with_it(stage: DeviceStage) -> None:
    await stage.create("bypasses", {"cpu": "1m"}, annotations={DEVICES: claim(0)}, nodeName=NODE)
    await stage.create("waits", ALL)
    await stage.refusal("waits")
    assert set(devices(await stage.run("beside", GPU))) == {1}
    for name in ("bypasses", "beside"):
        await stage.delete_pod(name)
    await stage.node_of("waits")


async def test_templates_of_reservations_hold_no_more_than_they_are_allocated(stage: DeviceStage) -> None:
    claims = {"annotations": {DEVICES: claim(*range(GPUS))}}
    held = await stage.hold("claims", {"cpu": "1m"}, "claims", claims)
    assert devices(held) == {}
    negative = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "negative"},
        "spec": {
            "template": {
                "spec": {"schedulerName": SCHEDULER, "containers": [container({extension.GPU: "-100"})]}
            },
            "owners": [{"labelSelector": {"matchLabels": {"negative": "true"}}}],
        },
    }
    await stage.client.create_raw(resource_of(Reservation), "", negative)

    async def refused() -> bool:
        conditions = (await stage.reservation("negative")).status.conditions
        return any("invalid resource unit" in condition.message for condition in conditions)

    await stage.until(refused, "the Reservation is not refused")
    owner = await stage.run("owner", ALL)
    assert set(devices(owner)) == set(range(GPUS))
