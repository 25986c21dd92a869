import pytest
from zone_guard.scheduling import CLOSED, OUTSIDE, ZoneGuard

from koordpy.api.core import Pod
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.status import Code
from koordpy.testing.cluster import cluster
from koordpy.testing.objects import node, pod
from koordpy.testing.scheduling import Scheduling, assert_fits

LABEL = "topology.kubernetes.io/zone"


@pytest.fixture
def zones() -> Cluster:
    return cluster(node("a", labels={LABEL: "eu-1a"}), node("b", labels={LABEL: "eu-1b"}), node("nowhere"))


def asking(zones: str) -> Pod:
    return pod("p", annotations={"zone-guard.example.com/zones": zones})


def closing(cluster: Cluster, *zones: str) -> Scheduling:
    return Scheduling(cluster, ZoneGuard, args={"ZoneGuard": {"closedZones": list(zones)}})


def test_a_pod_stays_within_its_zones(zones: Cluster) -> None:
    found = Scheduling(zones, ZoneGuard).find(asking("eu-1a"))
    assert found.refused == {"b": OUTSIDE, "nowhere": OUTSIDE}


def test_zones_are_separated_by_commas(zones: Cluster) -> None:
    assert_fits(Scheduling(zones, ZoneGuard).find(asking("eu-1a, eu-1b")), "a", "b")


def test_a_closed_zone_takes_no_pod(zones: Cluster) -> None:
    scheduling = closing(zones, "eu-1b")
    assert scheduling.find(asking("eu-1a,eu-1b")).refused == {"b": CLOSED, "nowhere": OUTSIDE}
    assert scheduling.find(pod("p")).refused == {"b": CLOSED}


def test_a_pod_without_zones_goes_anywhere(zones: Cluster) -> None:
    assert_fits(Scheduling(zones, ZoneGuard).find(pod("p")), "a", "b", "nowhere")


def test_evicting_pods_would_not_help(zones: Cluster) -> None:
    found = closing(zones, "eu-1b").find(asking("eu-1a"))
    assert {status.code for status in found.statuses.values()} == {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}
