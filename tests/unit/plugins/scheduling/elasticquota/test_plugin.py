"""ElasticQuota admits pods while their quotas have room."""

import pytest

from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import Code
from koordpy_plugins.scheduling.elasticquota.admission import QUOTA_STATE

from .quota_world import World, pod_document


@pytest.fixture
def world() -> World:
    made = World()
    made.node("n1", 10)
    made.quota("a", least=2, most=4)
    made.quota("b", least=0, most=10)
    return made


def test_a_pod_passes_while_its_quota_has_room_and_is_told_why_not(world: World) -> None:
    world.pod("p1", "a", 3, node="n1")
    assert world.filter(world.pod("p2", "a", 1)).is_success
    assert world.filter(world.pod("p3", "a", 2)).message == (
        "Insufficient quotas, quotaName: a, runtime: cpu:4, used: cpu:3, pod's request: cpu:2, "
        "exceedDimensions: [cpu]"
    )


def test_a_pod_that_the_watch_has_not_shown_counts_in_the_request_for_its_check_alone(world: World) -> None:
    pod = decode(Pod, pod_document("p1", "b", 5))
    pod.metadata.uid = "uid-p1"
    assert world.filter(pod).is_success
    info = world.trees.quota("b")
    assert info is not None
    assert not info.pods
    assert all(amount.is_zero for amount in info.request.values())
    assert world.plugin.reserve(CycleState(), pod, "n1").is_success
    assert not info.pods
    assert world.filter(world.pod("p2", "b", 6)).is_rejected


@pytest.mark.parametrize("fits_quota", [True, False])
def test_the_room_of_a_nominated_pod_is_kept_from_less_important_ones_if_victims_must_suffice(
    fits_quota: bool,
) -> None:
    world = World({"preemptionFitsQuota": fits_quota})
    world.node("n1", 10)
    world.quota("a", least=2, most=4)
    important, equal, lesser = (world.pod(name, "a", 3) for name in ("important", "equal", "lesser"))
    important.spec.priority = equal.spec.priority = 10
    world.plugin.handle.nominator.add(important, "n1")
    assert world.filter(lesser).is_success is not fits_quota
    assert world.filter(important).is_success
    assert world.filter(equal).is_success
    assert world.filter(world.pod("small", "a", 1)).is_success
    world.plugin.handle.nominator.delete(important.metadata.uid)
    assert world.filter(lesser).is_success


def test_pods_between_filter_and_bind_count(world: World) -> None:
    first, second = world.pod("p1", "a", 3), world.pod("p2", "a", 3)
    assert world.filter(first).is_success
    world.plugin.reserve_tentatively(CycleState(), first)
    world.plugin.reserve_tentatively(CycleState(), first)
    assert world.filter(second).code is Code.UNSCHEDULABLE
    assert world.filter(first).is_success, "its own charge does not count against it"
    assert world.used("a") == "0", "only what is reserved or bound is used"
    world.plugin.unreserve_tentatively(first)
    assert world.filter(second).is_success
    assert not world.trees.unconfirmed()


@pytest.mark.parametrize("ended", ["bound", "deleted"])
def test_a_tentative_charge_ends_with_what_the_watch_shows(world: World, ended: str) -> None:
    pod = world.pod("p1", "a", 3)
    world.plugin.reserve_tentatively(CycleState(), pod)
    if ended == "bound":
        world.pod("p1", "a", 3, node="n1")
    else:
        world.delete(pod)
    assert not world.trees.unconfirmed()
    assert world.used("a") == ("3" if ended == "bound" else "0")


def test_reserve_checks_again(world: World) -> None:
    first, second = world.pod("p1", "a", 3), world.pod("p2", "a", 3)
    assert world.filter(first).is_success
    assert world.filter(second).is_success
    assert world.plugin.reserve(CycleState(), first, "n1").is_success
    refused = world.plugin.reserve(CycleState(), second, "n1")
    assert refused.code is Code.UNSCHEDULABLE
    assert "used: cpu:3" in refused.message
    world.plugin.unreserve(CycleState(), first, "n1")
    assert world.plugin.reserve(CycleState(), second, "n1").is_success


def test_a_reserved_pod_counts_once_when_the_watch_shows_it_bound(world: World) -> None:
    pod = world.pod("p1", "a", 3)
    assert world.plugin.reserve(CycleState(), pod, "n1").is_success
    assert list(world.trees.unconfirmed()) == [pod.metadata.uid]
    world.pod("p1", "a", 3, node="n1")
    assert world.used("a") == "3"
    assert not world.trees.unconfirmed()


def test_a_reserved_pod_that_the_watch_has_not_shown_counts_until_it_does(world: World) -> None:
    early, other = decode(Pod, pod_document("p1", "a", 3)), world.pod("p2", "a", 3)
    assert world.plugin.reserve(CycleState(), early, "n1").is_success
    assert world.filter(other).is_rejected
    world.plugin.unreserve(CycleState(), early, "n1")
    assert world.filter(other).is_success
    assert not world.trees.unconfirmed()


def test_a_reserved_pod_is_charged_however_late_the_watch_is_until_it_is_known_to_be_gone(
    world: World,
) -> None:
    early, other = decode(Pod, pod_document("p1", "a", 3)), world.pod("p2", "a", 3)
    assert world.plugin.reserve(CycleState(), early, "n1").is_success
    world.clock.advance(3600)
    assert world.filter(other).is_rejected
    world.plugin.handle.forget_pod(early, "n1")
    assert world.filter(other).is_success
    assert not world.trees.unconfirmed()


def test_reserved_and_charged_pods_survive_a_rebuild(world: World) -> None:
    reserved, charged = world.pod("p1", "b", 2), world.pod("p2", "b", 3)
    assert world.plugin.reserve(CycleState(), reserved, "n1").is_success
    world.plugin.reserve_tentatively(CycleState(), charged)
    world.quota("b", "c", most=10)
    world.quota("c", is_parent="true")
    assert world.used("c") == "2"
    info = world.trees.quota("c")
    assert info is not None
    assert str(info.tentative["cpu"]) == "3"


def test_profiles_share_their_trees(world: World) -> None:
    assert world.another({"enableCheckParentQuota": True}).trees is world.trees
    assert world.another({"enableMinQuotaScale": False}).trees is not world.trees


def test_parents_limit_their_children_where_that_is_enabled() -> None:
    world = World({"enableCheckParentQuota": True, "enableRuntimeQuota": False})
    world.quota("top", most=4, is_parent="true")
    world.quota("a", "top", most=4)
    world.quota("b", "top", most=4)
    world.pod("p1", "a", 3, node="n1")
    assert world.filter(world.pod("p2", "b", 2)).message == (
        "Insufficient quotas, quotaNameTopo: [top b], runtime: cpu:4, used: cpu:3, pod's request: cpu:2, "
        "exceedDimensions: [cpu]"
    )


def test_a_quota_below_itself_is_an_error_and_no_endless_walk() -> None:
    world = World({"enableCheckParentQuota": True, "enableRuntimeQuota": False})
    world.quota("top", "mid", is_parent="true")
    world.quota("mid", "top", is_parent="true")
    world.quota("a", "mid", most=4)
    refused = world.filter(world.pod("p1", "a", 1))
    assert refused.code is Code.ERROR
    assert refused.message == "elasticQuota mid is below itself, quotaNameTopo: [mid top mid a]"


def test_pods_that_are_not_preemptible_are_limited_by_the_minimum(world: World) -> None:
    world.pod("p1", "a", 2, node="n1", preemptible="false")
    refused = world.filter(world.pod("p2", "a", 1, preemptible="false"))
    assert refused.message == (
        "Insufficient non-preemptible quotas, quotaName: a, min: cpu:2, nonPreemptibleUsed: cpu:2, "
        "pod's request: cpu:1, exceedDimensions: [cpu]"
    )
    assert world.filter(world.pod("p3", "a", 1)).is_success


def test_pods_without_quota_are_skipped_with_the_gate() -> None:
    world = World(DisableDefaultQuota=True)
    assert world.filter(world.pod("p1", "nowhere", 99)).is_skip


def test_a_dry_run_changes_its_own_state_alone(world: World) -> None:
    victim = world.pod("p1", "a", 3, node="n1")
    pod, state = world.pod("p2", "a", 3), CycleState()
    world.plugin.pre_filter(state, pod, world.cluster.nodes.all())
    copy = state.clone()
    world.plugin.remove_pod(copy, pod, victim, None)  # type: ignore[arg-type]
    seen, changed = state.read(QUOTA_STATE), copy.read(QUOTA_STATE)
    assert seen is not None
    assert changed is not None
    assert (str(seen.used["cpu"]), str(changed.used["cpu"])) == ("3", "0")
    assert world.used("a") == "3"


@pytest.mark.parametrize(
    ("deleted_at", "grace", "counts"),
    [
        ("2029-12-31T23:59:00Z", 30, False),
        ("2029-12-31T23:59:00Z", 61, True),
        ("2029-12-31T23:59:00Z", 2**63 - 1, False),
        ("9999-12-31T23:59:59Z", 9 * 10**9, True),
    ],
)
def test_a_terminating_pod_counts_until_its_grace_period_is_over(
    deleted_at: str, grace: int, counts: bool
) -> None:
    world = World(ElasticQuotaIgnoreTerminatingPod=True)
    world.quota("a", most=4)
    document = pod_document("p1", "a", 3, node="n1")
    document["metadata"] |= {"deletionTimestamp": deleted_at, "deletionGracePeriodSeconds": grace}
    world.put(Pod, document)
    assert world.used("a") == ("3" if counts else "0")
