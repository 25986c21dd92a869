import pytest
from zone_guard.scheduling import CLOSED, OUTSIDE, ZoneGuard, ZoneGuardArgs

from koordpy.scheduling.handle import Handle
from koordpy.scheduling.status import Code
from koordpy.testing import scheduling

LABEL = "topology.kubernetes.io/zone"


@pytest.fixture
def handle():
    zones = {"a": {LABEL: "eu-1a"}, "b": {LABEL: "eu-1b"}, "nowhere": {}}
    nodes = [{"metadata": {"name": name, "labels": labels}} for name, labels in zones.items()]
    return Handle(scheduling.cluster(nodes))


def pod(zones=None):
    annotations = {} if zones is None else {"zone-guard.example.com/zones": zones}
    return {"metadata": {"name": "p", "namespace": "d", "annotations": annotations}}


def reasons(handle, pod, closed=None):
    """What the plugin says of each node that it refuses."""
    refusals = scheduling.refusals(ZoneGuard(ZoneGuardArgs(closedZones=closed or []), handle), pod)
    assert {status.code for status in refusals.values()} <= {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
    return {name: status.message for name, status in refusals.items()}


def test_a_pod_stays_within_its_zones(handle):
    assert reasons(handle, pod("eu-1a")) == {"b": OUTSIDE, "nowhere": OUTSIDE}


def test_zones_are_separated_by_commas(handle):
    assert reasons(handle, pod("eu-1a, eu-1b")) == {"nowhere": OUTSIDE}


def test_a_closed_zone_takes_nobody(handle):
    assert reasons(handle, pod("eu-1a,eu-1b"), closed=["eu-1b"]) == {"b": CLOSED, "nowhere": OUTSIDE}
    assert reasons(handle, pod(), closed=["eu-1b"]) == {"b": CLOSED}


def test_a_pod_without_zones_goes_anywhere(handle):
    assert reasons(handle, pod()) == {}
