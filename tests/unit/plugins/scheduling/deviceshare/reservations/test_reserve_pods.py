"""Reserve pods on nodes whose devices are reserved, and used by the owners of the reservations."""

import json
from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.reservation import Reservation
from koordpy.api.reserve_pod import new_reserve_pod
from koordpy.api.scheme import decode
from koordpy_plugins.scheduling.deviceshare.plugin import DeviceShare
from tests.unit.plugins.scheduling.reservation.scenes import Scene

from ..nodes import device, gpu

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
RESERVED = "scheduling.koordinator.sh/reservation-allocated"


def part(percent: int) -> dict[str, str]:
    return {
        "koordinator.sh/gpu-core": str(percent),
        "koordinator.sh/gpu-memory-ratio": str(percent),
        "koordinator.sh/gpu-memory": f"{percent * 16 * 1024 // 100}Mi",
    }


def allocated(percent: int) -> dict[str, str]:
    return {ALLOCATED: json.dumps({"gpu": [{"minor": 0, "resources": part(percent)}]})}


def reserved(name: str, percent: int, *, pending: bool = False) -> Reservation:
    requests = {"koordinator.sh/gpu": str(percent)}
    status: dict[str, Any] = {"phase": "Pending"}
    if not pending:
        status = {"phase": "Available", "nodeName": "n", "allocatable": requests}
    return decode(
        Reservation,
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "annotations": {} if pending else allocated(percent),
            },
            "spec": {
                "ttl": "1h",
                "allocateOnce": False,
                "allocatePolicy": "Aligned",
                "owners": [{"labelSelector": {"matchLabels": {"for": name}}}],
                "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}},
            },
            "status": status,
        },
    )


def owner(of: str, percent: int) -> Pod:
    annotations = {RESERVED: json.dumps({"name": of, "uid": f"uid-{of}"})} | allocated(percent)
    requests = {"koordinator.sh/gpu": str(percent)}
    return decode(
        Pod,
        {
            "metadata": {"name": "owner", "namespace": "x", "uid": "uid-owner", "annotations": annotations},
            "spec": {
                "nodeName": "n",
                "containers": [{"name": "c", "resources": {"requests": requests}}],
            },
        },
    )


@pytest.mark.parametrize(("percent", "fits"), [(40, True), (50, False)])
def test_what_owners_use_of_a_reservation_is_counted_once_for_a_reserve_pod(percent: int, fits: bool) -> None:
    wanted = reserved("new", percent, pending=True)
    roomy = {"pods": "10", "koordinator.sh/gpu": "1000"}
    node = decode(Node, {"metadata": {"name": "n", "uid": "n"}, "status": {"allocatable": roomy}})
    scene = Scene([node], others=[DeviceShare])
    scene.cluster.store(Device).apply(device([gpu(0)]))
    scene.show(reserved("old", 60), owner("old", 30), wanted)
    outcome = scene.find(new_reserve_pod(wanted))[1]
    assert outcome.prefilter.is_success
    assert list(outcome.kept.names) == (["n"] if fits else [])
