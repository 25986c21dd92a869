"""Designated CPUs of pods with reservations: filters do not know yet which reservation is nominated."""

import json

import pytest

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.reservation_info import AssignedPod, ReservationInfo
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.toolkit.scheduling_hint import SCHEDULING_HINT, SchedulingHintState
from koordpy.testing.reservations import GivenReservations

from ..reservation.scenes import reservation
from .numa_world import allocated, bound_pod, cluster_of, profile

NOT_ENOUGH = "not enough cpus available to satisfy request"


class Nominated(GivenReservations):
    """The reservation that is nominated for every pod, if any."""

    info: ReservationInfo | None = None

    def nominated(self, pod: Pod, node_name: str, state: CycleState | None = None) -> ReservationInfo | None:
        return self.info


class World:
    """A node with 16 CPUs of which Reservations and pods hold some."""

    def __init__(self, **held_by: str) -> None:
        self.cluster = cluster_of("a")
        self.framework, self.plugin = profile(self.cluster)
        self.reservations = Nominated()
        self.plugin.handle.publish_reservations(self.reservations)
        self.infos: dict[str, ReservationInfo] = {}
        for name, cpus in held_by.items():
            self.hold(name, cpus)

    def hold(self, name: str, cpus: str) -> None:
        """Let a Reservation (r...) or a pod hold CPUs."""
        annotations = {extension.ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpus})}
        if name.startswith("r"):
            made = reservation(name, "a", "2", annotations=annotations)
            self.cluster.store(Reservation).apply(made)
            self.infos[name] = ReservationInfo(made)
        else:
            self.cluster.store(Pod).apply(bound_pod(name, node_name="a", annotations=annotations))

    def use(self, pod: str, of: str, cpus: str) -> None:
        """Let a pod use CPUs of a Reservation."""
        self.hold(pod, cpus)
        found = self.cluster.store(Pod).by_key(f"default/{pod}")
        assert found is not None
        self.infos[of].assign(AssignedPod.of(found))

    def filter(self, pod: Pod) -> tuple[CycleState, Status]:
        """Run what precedes the nomination; every Reservation matches."""
        state, node = CycleState(), NodeInfo(self.cluster.nodes.all(), 0)
        state.write(SCHEDULING_HINT, SchedulingHintState((), (), {self.plugin.name: {}}))
        self.plugin.pre_restore_reservation(state, pod)
        self.plugin.restore_reservation(state, pod, list(self.infos.values()), [], node)
        _, status = self.plugin.pre_filter(state, pod, node.nodes)
        assert status.is_success
        return state, self.plugin.filter(state, pod, node)

    def reserve(self, state: CycleState, pod: Pod, nominated: str | None) -> Status:
        """Nominate a Reservation and reserve."""
        self.reservations.info = None if nominated is None else self.infos[nominated]
        return self.plugin.reserve(state, pod, "a")


def designated(cpus: str) -> Pod:
    text = json.dumps({"cpuset": cpus})
    return bound_pod("p", "2", annotations={extension.ANNOTATION_RESOURCE_STATUS: text})


@pytest.mark.parametrize("cpus", ["6-7", "4-5", "5-6", "0,2"])
def test_a_pod_keeps_free_cpus_and_those_of_its_reservation(cpus: str) -> None:
    world, pod = World(r0="4-5"), designated(cpus)
    state, status = world.filter(pod)
    assert status.is_success
    assert world.reserve(state, pod, "r0").is_success
    assert allocated(world.plugin, state, pod).cpuset == cpus


@pytest.mark.parametrize("cpus", ["4-5", "4,8", "8-9"])
def test_cpus_that_others_hold_are_refused_by_the_filter(cpus: str) -> None:
    world = World(r0="4-5", other="8-9")
    world.use("owner", of="r0", cpus="4")
    assert world.filter(designated(cpus))[1].reasons == (NOT_ENOUGH,)


def test_cpus_of_another_reservation_are_refused_once_one_is_nominated() -> None:
    world, pod = World(r0="4-5", r1="6-7"), designated("6-7")
    state, status = world.filter(pod)
    assert status.is_success
    assert world.reserve(state, pod, "r0").is_success
    assert allocated(world.plugin, state, pod).cpuset == "4-5"  # what its reservation offers


def test_cpus_of_a_reservation_are_refused_to_a_pod_that_uses_none() -> None:
    world, pod = World(r0="4-5"), designated("4-5")
    state, status = world.filter(pod)
    assert status.is_success
    assert world.reserve(state, pod, None).reasons == (NOT_ENOUGH,)


def test_cpus_that_another_pod_got_since_the_filter_are_not_kept() -> None:
    world, pod = World(r0="4-5"), designated("6-7")
    state, status = world.filter(pod)
    assert status.is_success
    world.hold("late", "6-7")
    assert world.reserve(state, pod, "r0").is_success
    assert allocated(world.plugin, state, pod).cpuset == "4-5"
