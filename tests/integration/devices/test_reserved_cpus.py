"""CPUs of their own for pods and Reservations, beside a stock scheduler."""

from koordpy.api import extension
from tests.integration.devices.stage import PROD, SPREAD, DeviceStage, cpus, status, uses

OWNER = "uses-reserved-cpus"
LSR = {extension.LABEL_POD_QOS: "LSR"}
SPEC = {extension.ANNOTATION_RESOURCE_SPEC: SPREAD}
TEMPLATE = {"labels": LSR, "annotations": SPEC, "priorityClassName": PROD, "priority": 9999}


async def test_a_pod_gets_cpus_of_its_own(stage: DeviceStage) -> None:
    pod = await stage.run(
        "lsr",
        {"cpu": "2", "memory": "1Gi"},
        LSR,
        SPEC,
        priorityClassName=PROD,
        tolerations=[{"operator": "Exists"}],
    )
    mine = cpus(pod)
    assert len(mine) == 2
    assert len({cpu // 2 for cpu in mine}) == 2, "CPUs of one core"


async def test_a_pod_gets_just_the_cpus_of_its_reservation(stage: DeviceStage) -> None:
    reservation = await stage.hold("cpus", {"cpu": "4"}, OWNER, TEMPLATE)
    assert len(cpus(reservation)) == 4
    requests = {"cpu": "4", "memory": "100Mi"}
    owner = await stage.run("owner", requests, {OWNER: "true", **LSR}, SPEC, priorityClassName=PROD)
    assert uses(owner) == "cpus"
    assert status(owner) == status(reservation)


async def test_a_pod_that_needs_more_than_is_reserved_gets_cpus_of_the_node_too(stage: DeviceStage) -> None:
    reservation = await stage.hold("cpus", {"cpu": "2"}, OWNER, TEMPLATE)
    requests = {"cpu": "4", "memory": "100Mi"}
    owner = await stage.run("owner", requests, {OWNER: "true", **LSR}, SPEC, priorityClassName=PROD)
    assert uses(owner) == "cpus"
    assert len(cpus(owner)) == 4
    assert cpus(reservation) < cpus(owner)


async def test_pods_without_cpus_of_their_own_use_reserved_ones(stage: DeviceStage) -> None:
    await stage.hold("cpus", {"cpu": "4"}, OWNER, TEMPLATE, allocateOnce=False)
    owners = [await stage.run(f"owner-{number}", {"cpu": "2"}, {OWNER: "true"}) for number in range(2)]
    assert [uses(pod) for pod in owners] == ["cpus", "cpus"]
    assert not any(cpus(pod) for pod in owners)
    found = await stage.owned_by("cpus", *owners)
    assert found.status.allocated == {"cpu": "4"}


async def test_pods_share_the_cpus_of_a_reservation_among_them(stage: DeviceStage) -> None:
    reservation = await stage.hold("cpus", {"cpu": "4"}, OWNER, TEMPLATE, allocateOnce=False)
    labels = {OWNER: "true", **LSR}
    owners = [
        await stage.run(f"owner-{number}", {"cpu": "2"}, labels, SPEC, priorityClassName=PROD)
        for number in range(2)
    ]
    assert [uses(pod) for pod in owners] == ["cpus", "cpus"]
    assert cpus(owners[0]) | cpus(owners[1]) == cpus(reservation)
    assert not cpus(owners[0]) & cpus(owners[1])
