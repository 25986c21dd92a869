"""Which rights an installation needs: those of enabled features, and with enabled gates alone."""

import pytest

from koordpy import settings
from koordpy.api.needs import Right
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.doctor.installation import Installation
from koordpy.features.feature import Part
from koordpy.lib.clock import SystemClock
from tests.manifests.render import DEPLOY

PROFILES = DEPLOY / "kustomize/components/numa-and-devices/koordpy-profiles-numa-and-devices.yaml"


def needed(gates: dict[str, bool]) -> dict[Right, list[str]]:
    client = Client(Connection.to(Access("http://127.0.0.1:1")))
    given = settings.load(None, {"extender": {"schedulerConfig": str(PROFILES)}, "featureGates": gates})
    return dict(Installation(client, given, (Part.EXTENDER,), SystemClock()).rights())


@pytest.mark.parametrize(
    ("gates", "locks"),
    [({}, False), ({"DevicePluginAdaption": True}, True), ({"AllAlpha": True}, True)],
)
def test_nodes_are_locked_for_device_plugins_with_their_gate_alone(
    gates: dict[str, bool], locks: bool
) -> None:
    found = needed(gates)
    for verb in ("get", "patch"):
        assert found.get(Right(verb, "nodes")) == (["DeviceShare"] if locks else None)
    assert not any(right.gate for right in found)


def test_a_gate_that_does_not_exist_needs_no_rights() -> None:
    assert Right("patch", "nodes") not in needed({"NoSuchGate": True})
