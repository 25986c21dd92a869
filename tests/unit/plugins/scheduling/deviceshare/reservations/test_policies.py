"""What owners get of a Reservation with devices, by its policy: of the node beside it, or of it alone."""

import json

import pytest

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.device_allocations import of
from koordpy.api.reservation import Reservation
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.reservation_info import AssignedPod, ReservationInfo
from koordpy.testing.reservations import GivenReservations
from koordpy_plugins.scheduling.deviceshare.reservations.restored import RESTORED

from ...reservation.scenes import reservation
from ..clusters import NODE, PERCENT, Profile, cluster_of, minors, pod

WHOLE = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}


class Nominated(GivenReservations):
    """The reservation that is nominated for every pod."""

    info: ReservationInfo | None = None

    def nominated(self, pod: Pod, node_name: str, state: CycleState | None = None) -> ReservationInfo | None:
        return self.info


def allocated(policy: str, percent: str) -> list[int] | None:
    """Return what an owner gets of the GPUs 0 to 2, of which a Reservation holds 2; None if it is refused."""
    profile = Profile(cluster_of(3))
    held = {extension.ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": [{"minor": 2, "resources": WHOLE}]})}
    made = reservation("r", NODE, annotations=held, allocatePolicy=policy)
    profile.cluster.store(Reservation).apply(made)
    given = Nominated()
    profile.handle.publish_reservations(given)
    info, owner, state = ReservationInfo(made), pod("p", {PERCENT: percent}), CycleState()
    assert profile.plugin.pre_restore_reservation(state, owner).is_success
    profile.plugin.restore_reservation(state, owner, [info], [], profile.node())
    _, status = profile.plugin.pre_filter(state, owner, profile.cluster.nodes.all())
    assert status.is_success
    if not profile.plugin.filter(state, owner, profile.node()).is_success:
        return None
    if not profile.plugin.filter_nominate_reservation(state, owner, info, NODE).is_success:
        return None
    given.info = info
    if not profile.plugin.reserve(state, owner, NODE).is_success:
        return None
    return sorted(minors(of(profile.written(state, owner).annotations)))


def test_an_owner_of_a_restricted_reservation_gets_its_gpu_and_no_other() -> None:
    assert allocated("Restricted", "100") == [2]
    assert allocated("Restricted", "200") is None


@pytest.mark.parametrize("policy", ["", "Aligned"])
def test_with_other_policies_owners_get_gpus_of_the_node_too(policy: str) -> None:
    assert allocated(policy, "300") == [0, 1, 2]


@pytest.mark.parametrize("policy", ["", "Aligned", "Restricted"])
def test_no_policy_gives_more_than_the_node_has(policy: str) -> None:
    assert allocated(policy, "400") is None


def test_a_reservation_without_devices_leaves_nothing_to_look_at_node_by_node() -> None:
    profile = Profile(cluster_of(3))
    made = reservation("r", NODE)
    profile.cluster.store(Reservation).apply(made)
    owner, state = pod("p", {PERCENT: "100"}), CycleState()
    assert profile.plugin.pre_restore_reservation(state, owner).is_success
    found, status = profile.plugin.restore_reservation(
        state, owner, [ReservationInfo(made)], [], profile.node()
    )
    assert status.is_success
    assert found is None
    restored = state.read(RESTORED)
    assert restored is not None
    assert not restored.special(profile.cluster.nodes.all())
    _, status = profile.plugin.pre_filter(state, owner, profile.cluster.nodes.all())
    assert status.is_success
    assert profile.plugin.filter(state, owner, profile.node()).is_success


def share_of_a_gpu(percent: int) -> dict[str, str]:
    """The annotation of a pod with a share of GPU 2."""
    resources = {
        extension.GPU_CORE: f"{percent}",
        extension.GPU_MEMORY_RATIO: f"{percent}",
        extension.GPU_MEMORY: f"{percent * (16 << 30) // 100}",
    }
    return {
        extension.ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": [{"minor": 2, "resources": resources}]})
    }


@pytest.mark.parametrize(("reserved", "used"), [(100, 100), (100, 40), (60, 60), (60, 20)])
@pytest.mark.parametrize("percent", ["30", "40", "50", "100", "200", "300"])
def test_what_others_use_of_reservations_counts_once_on_all_nodes_as_on_one(
    reserved: int, used: int, percent: str
) -> None:
    cluster = cluster_of(3)
    made = reservation("r", NODE, annotations=share_of_a_gpu(reserved))
    cluster.store(Reservation).apply(made)
    profile = Profile(cluster)
    user = pod("user", {PERCENT: f"{used}"})
    user.spec.node_name = NODE
    user.metadata.annotations.update(share_of_a_gpu(used))
    cluster.store(Pod).apply(user)
    info, other, state = ReservationInfo(made), pod("p", {PERCENT: percent}), CycleState()
    info.assign(AssignedPod.of(user))
    assert profile.plugin.pre_restore_reservation(state, other).is_success
    profile.plugin.restore_reservation(state, other, [], [info], profile.node())
    restored = state.read(RESTORED)
    assert restored is not None
    special = set(restored.special(profile.cluster.nodes.all()))
    assert special == (set() if reserved == 100 else {0})
    assert profile.plugin.pre_filter(state, other, cluster.nodes.all())[1].is_success
    verdict = profile.plugin.filter_nodes(state, other, cluster.nodes.all())
    assert verdict.status(0) == profile.plugin.filter(state, other, profile.node())
    assert verdict.status(0).is_success == (int(percent) <= 200)
