import asyncio
import json
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from koordpy import data
from koordpy.api.core import Pod
from koordpy.api.extension import ANNOTATION_RESERVATION_ALLOCATED
from koordpy.api.meta import Condition
from koordpy.api.reservation import Reservation
from koordpy.api.reserve_pod import new_reserve_pod
from koordpy.api.scheme import encode, resource_of
from koordpy.cluster.client import Client
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.interface import Binding, Plugin
from koordpy.simulation.inprocess import ServerChannel
from tests.unit.scheduling.worlds import NOW, node, pod, pod_document

from ..opinions import Opinion, all_at_once, one_by_one
from ..scenes import Scene, copied, pending, reservation, user

Form = Callable[[Opinion], type[Plugin]]


def test_a_reservation_is_placed_like_a_pod_and_held_from_then_on() -> None:
    wanted = pending("r", "8")
    scene = Scene(objects=[wanted])
    state = scene.reserve(new_reserve_pod(wanted))
    assert not scene.fits(pod("other", "3"))
    scene.show(pending("r", "8"))
    assert not scene.fits(pod("other", "3"))
    scene.framework.run_unreserve(state, new_reserve_pod(wanted), "n1")
    assert scene.fits(pod("other", "3"))


def test_once_available_it_is_no_assumption_any_more() -> None:
    wanted = pending("r", "8")
    scene = Scene(objects=[wanted])
    state = scene.reserve(new_reserve_pod(wanted))
    scene.show(reservation("r", cpu="8"))
    scene.framework.run_unreserve(state, new_reserve_pod(wanted), "n1")
    assert not scene.fits(pod("other", "3"))


def test_policies_that_exclude_each_other_are_not_on_one_node() -> None:
    default, aligned = pending("d", "1", allocatePolicy=""), pending("a", "1")
    scene = Scene([node("n1"), node("n2")], [reservation("r", "n1"), default, aligned])
    assert scene.reasons(new_reserve_pod(default)) == {
        "n1": ("node(s) reservation allocate policy conflict",)
    }
    assert scene.reasons(new_reserve_pod(aligned)) == {}


def test_the_node_of_the_template_is_the_only_one() -> None:
    template = {"spec": {"nodeName": "n2", "containers": []}}
    wanted = pending("r", template=template)
    scene = Scene([node("n1"), node("n2")], [wanted])
    assert scene.reasons(new_reserve_pod(wanted)) == {
        "n1": ("node(s) didn't match the nodeName specified by reservation",)
    }


def test_one_that_is_gone_is_an_error() -> None:
    scene = Scene()
    gone = new_reserve_pod(pending("r"))
    outcome = scene.framework.find_feasible(scene.framework.new_state(), gone, scene.nodes)
    assert outcome.error is not None
    assert 'reservation "r" not found' in outcome.error.message


def test_one_that_was_not_prepared_is_not_reserved() -> None:
    scene = Scene()
    gone = new_reserve_pod(pending("r"))
    state, _ = scene.find(gone)
    assert 'reservation "r" not found' in scene.framework.run_reserve(state, gone, "n1").message
    assert not scene.plugin.cache.infos


def test_what_another_attempt_took_is_given_back_too() -> None:
    wanted = pending("r", "8")
    scene = Scene(objects=[wanted])
    scene.reserve(new_reserve_pod(wanted))
    scene.framework.run_unreserve(scene.framework.new_state(), new_reserve_pod(wanted), "n1")
    assert "uid-r" not in scene.plugin.cache.infos


@pytest.mark.parametrize("form", [one_by_one, all_at_once])
class TestRestoring:
    """What other plugins restore for a reserve pod."""

    OBJECTS: ClassVar[list[Reservation | Pod]] = [
        reservation("used", "n1", "2"),
        reservation("unused", "n1", "2"),
        reservation("elsewhere", "n2", "2"),
        user("a", "used"),
    ]

    def restored(self, form: Form, wanted: Reservation) -> dict[str, tuple[list[str], list[str]]]:
        opinion = Opinion("A", strict=10**9)
        running = pod("b", "1", "0", "n2")
        running.metadata.labels = {"app": "a"}
        scene = Scene([node("n1"), node("n2")], [*self.OBJECTS, running, wanted], others=[form(opinion)])
        scene.find(new_reserve_pod(wanted))
        return {name: (sorted(one), sorted(other)) for name, (one, other) in opinion.restored.items()}

    def test_to_a_reserve_pod_all_reservations_of_nodes_with_users_are_unmatched(self, form: Form) -> None:
        assert self.restored(form, pending("r", "1")) == {"n1": ([], ["unused", "used"])}

    def test_what_it_may_take_over_comes_on_top_of_the_reservations(self, form: Form) -> None:
        assert self.restored(form, pending("r", "1", **TestPreAllocation.SPEC)) == {
            "n1": ([], ["unused", "used"]),
            "n2": (["b"], ["elsewhere"]),
        }

    def test_one_that_must_take_over_a_pod_looks_at_no_other_nodes(self, form: Form) -> None:
        labels = {"scheduling.koordinator.sh/pre-allocation-required": "true"}
        wanted = pending("r", "1", labels=labels, **TestPreAllocation.SPEC)
        assert self.restored(form, wanted) == {"n2": (["b"], ["elsewhere"])}


class TestPreAllocation:
    SPEC: ClassVar[dict[str, Any]] = {
        "preAllocation": True,
        "allocatePolicy": "Restricted",
        "owners": [{"labelSelector": {"matchLabels": {"app": "a"}}}],
    }

    def running(self, name: str, cpu: str) -> Pod:
        made = pod(name, cpu, "0", "n1")
        made.metadata.labels = {"app": "a"}
        return made

    def test_it_takes_over_what_a_running_pod_holds(self) -> None:
        wanted = pending("r", "6", **self.SPEC)
        scene = Scene(objects=[wanted, self.running("a", "5"), pod("b", "3", "0", "n1")])
        state = scene.reserve(new_reserve_pod(wanted))
        info = scene.plugin.cache.infos["uid-r"]
        assert info.assigned.keys() == {"uid-a"}
        scene.framework.run_unreserve(state, new_reserve_pod(wanted), "n1")
        assert "uid-r" not in scene.plugin.cache.infos
        scene.show(reservation("r", cpu="6", **self.SPEC))
        assert not scene.plugin.cache.infos["uid-r"].assigned

    def test_a_running_pod_that_names_it_stays_in_it(self) -> None:
        wanted = pending("r", "6", **self.SPEC)
        scene = Scene(objects=[wanted, self.running("a", "5"), pod("b", "3", "0", "n1")])
        state = scene.reserve(new_reserve_pod(wanted))
        scene.show(user("a", "r", "5"))
        scene.framework.run_unreserve(state, new_reserve_pod(wanted), "n1")
        assert scene.plugin.cache.reservation_of("uid-a") == "uid-r"

    def test_one_that_is_being_deleted_takes_over_nothing(self) -> None:
        wanted = pending("r", "6", **self.SPEC)
        scene = Scene(objects=[wanted, self.running("a", "5"), pod("b", "3", "0", "n1")])
        reserve_pod = new_reserve_pod(wanted)
        state, _ = scene.find(reserve_pod)
        assert scene.framework.nominate_reservation(state, reserve_pod, "n1").is_success
        wanted.metadata.deletion_timestamp = "2026-03-01T12:00:00Z"
        status = scene.framework.run_reserve(state, reserve_pod, "n1")
        assert status.message.endswith("target reservation is terminating")

    @pytest.mark.parametrize(
        ("problem", "message"),
        [
            ("no client", "the Reservation plugin has no client to write with"),
            ("pod gone", "reservation pre allocation is unsupported with current attributes"),
            ("pod replaced", "reservation pre allocation is unsupported with current attributes"),
            ("refused", "404 NotFound"),
        ],
    )
    async def test_pods_that_cannot_be_annotated_keep_it_from_being_bound(
        self, problem: str, message: str
    ) -> None:
        server = ApiServer(crds=[data.deploy("crds")])
        await server.load()
        client = None if problem == "no client" else Client(ServerChannel(server))
        wanted = pending("r", "6", **self.SPEC)
        running = self.running("a", "5")
        scene = Scene(objects=[wanted, running, pod("b", "3", "0", "n1")], client=client)
        reserve_pod = new_reserve_pod(wanted)
        state = scene.reserve(reserve_pod)
        if problem == "pod gone":
            scene.cluster.store(Pod).discard(running.metadata.key)
        if problem == "pod replaced":
            scene.show(copied(running, uid="another"))
        info = scene.plugin.cache.infos["uid-r"]
        binding = Binding(reserve_pod, "n1")
        status = await scene.framework.run_pre_bind_reservation(state, info, binding)
        assert message in status.message

    def test_without_the_pod_there_is_no_room(self) -> None:
        wanted = pending("r", "6", **{**self.SPEC, "preAllocation": False})
        scene = Scene(objects=[wanted, self.running("a", "5"), pod("b", "3", "0", "n1")])
        assert not scene.fits(new_reserve_pod(wanted))

    def test_only_a_restricted_reservation_may(self) -> None:
        wanted = pending("r", "6", **{**self.SPEC, "allocatePolicy": "Aligned"})
        assert scene_reasons(wanted) == (
            "node(s) reservation pre allocation is unsupported with current attributes",
        )

    def test_cluster_mode_has_to_be_enabled(self) -> None:
        wanted = pending("r", "6", **self.SPEC, preAllocationPolicy={"mode": "Cluster"})
        assert scene_reasons(wanted) == (
            "reservation requires cluster mode pre-allocation which is disabled",
        )

    def test_marked_pods_are_taken_by_rank_until_it_is_enough(self) -> None:
        policy = {"mode": "Cluster", "enableMultiple": True}
        wanted = pending("r", "4", **self.SPEC, preAllocationPolicy=policy)
        pods = []
        for name, cpu, rank in (("a", "1", "70"), ("b", "5", "90"), ("c", "1", "50")):
            made = pod(name, cpu, "0", "n1")
            made.metadata.labels = {"pod.koordinator.sh/is-pre-allocatable": "true"}
            made.metadata.annotations = {"pod.koordinator.sh/pre-allocatable-priority": rank}
            pods.append(made)
        args = {"preAllocationConfig": {"enableClusterMode": True}}
        scene = Scene(objects=[wanted, *pods, pod("d", "1", "0", "n1")], args=args)
        scene.reserve(new_reserve_pod(wanted))
        assert list(scene.plugin.cache.infos["uid-r"].assigned) == ["uid-a", "uid-c"]

    def test_marked_pods_are_taken_over_whatever_reservation_they_use(self) -> None:
        wanted = pending("r", "6", **self.SPEC, preAllocationPolicy={"mode": "Cluster"})
        other = reservation("other", cpu="5", allocatePolicy="Restricted")
        used = user("a", "other", "5")
        used.metadata.labels = {"pod.koordinator.sh/is-pre-allocatable": "true"}
        args = {"preAllocationConfig": {"enableClusterMode": True}}
        scene = Scene([node("n1", cpu="11")], [other, wanted, used], args=args)
        infos = scene.plugin.cache.infos
        state = scene.reserve(new_reserve_pod(wanted))
        assert infos["uid-r"].assigned.keys() == {"uid-a"}
        scene.framework.run_unreserve(state, new_reserve_pod(wanted), "n1")
        assert scene.plugin.cache.reservation_of("uid-a") == "uid-other"
        scene.reserve(new_reserve_pod(wanted))
        scene.show(user("a", "r", "5"))
        assert not infos["uid-other"].assigned
        assert infos["uid-r"].assigned.keys() == {"uid-a"}

    def test_what_must_take_over_a_pod_and_may_not_goes_nowhere(self) -> None:
        required = {"metadata": {"labels": {"scheduling.koordinator.sh/pre-allocation-required": "true"}}}
        wanted = pending("r", template={**required, "spec": {"containers": []}})
        assert scene_reasons(wanted) == ("node(s) no pod match reservation with pre allocation required",)
        wanted.metadata.labels = {"scheduling.koordinator.sh/pre-allocation-required": "false"}
        assert Scene(objects=[wanted]).fits(new_reserve_pod(wanted))

    def test_pods_of_reservations_are_left_alone(self) -> None:
        wanted = pending("r", "6", **self.SPEC)
        used = user("a", "other", "5")
        used.metadata.labels = {"app": "a"}
        scene = Scene(objects=[wanted, used, pod("b", "3", "0", "n1")])
        assert not scene.fits(new_reserve_pod(wanted))


def scene_reasons(wanted: Reservation) -> tuple[str, ...]:
    return Scene(objects=[wanted]).reasons(new_reserve_pod(wanted))[""]


def test_binding_a_reservation_needs_a_client() -> None:
    wanted = pending("r")
    scene = Scene(objects=[wanted])
    reserve_pod = new_reserve_pod(wanted)
    state = scene.reserve(reserve_pod)
    status = asyncio.run(scene.framework.run_bind(state, reserve_pod, Binding(reserve_pod, "n1")))
    assert "no client" in status.message


class TestOperatingPods:
    def operating(self, **annotations: str) -> Pod:
        made = pod("op", "4", "0", "n1")
        made.metadata.labels = {"scheduling.koordinator.sh/operating-mode": "Reservation"}
        made.metadata.annotations = {
            f"scheduling.koordinator.sh/reservation-{key.replace('_', '-')}": value
            for key, value in annotations.items()
        }
        made.status.phase = "Running"
        made.status.conditions = [Condition(type="Ready", status="True")]
        return made

    def test_owners_may_take_the_place_of_the_pod(self) -> None:
        owners = '[{"object":{"name":"x"}}]'
        scene = Scene(objects=[self.operating(owners=owners), pod("b", "5", "0", "n1")])
        assert scene.fits(pod("x", "5"))
        assert not scene.fits(pod("y", "5"))
        scene.reserve(pod("x", "5"))
        assert scene.plugin.cache.infos["uid-op"].is_used_up

    def test_a_current_owner_uses_it_up(self) -> None:
        owner = '{"namespace":"default","name":"z","uid":"uz"}'
        scene = Scene(objects=[self.operating(owners="[{}]", current_owner=owner), pod("b", "5", "0", "n1")])
        assert not scene.fits(pod("x", "5"))
        scene.show(self.operating(owners="[{}]"))
        assert scene.fits(pod("x", "5"))

    def test_an_ended_pod_is_no_reservation(self) -> None:
        scene = Scene(objects=[self.operating(owners="[{}]")])
        ended = self.operating(owners="[{}]")
        ended.status.phase = "Succeeded"
        scene.show(ended)
        assert not scene.plugin.cache.infos


async def test_binding_writes_the_status_and_marks_the_pods_that_are_taken_over() -> None:
    clock = FakeClock(NOW)
    server = ApiServer(crds=[data.deploy("crds")], clock=clock)
    await server.load()
    client = Client(ServerChannel(server))
    document = pod_document("a", "5", "0", "n1")
    document["metadata"]["labels"] = {"app": "a"}
    document["spec"]["containers"][0]["image"] = "i"
    await client.create_raw(resource_of(Pod), "default", document)
    running = await client.get(Pod, "default", "a")
    wanted = json.loads(encode(pending("r", "6", **TestPreAllocation.SPEC)))
    await client.create_raw(resource_of(Reservation), "", wanted)
    known = await client.get(Reservation, "", "r")
    scene = Scene(objects=[known, running, pod("b", "3", "0", "n1")], client=client)
    reserve_pod = new_reserve_pod(known)
    state = scene.reserve(reserve_pod)
    binding = Binding(reserve_pod, "n1")
    info = scene.plugin.cache.infos[known.metadata.uid]
    assert (await scene.framework.run_pre_bind_reservation(state, info, binding)).is_success
    assert (await scene.framework.run_bind(state, reserve_pod, binding)).is_success
    bound = await client.get(Reservation, "", "r")
    assert bound.is_available
    assert bound.status.allocatable == {"cpu": "6"}
    marked = (await client.get(Pod, "default", "a")).metadata.annotations
    assert json.loads(marked[ANNOTATION_RESERVATION_ALLOCATED]) == {"name": "r", "uid": bound.metadata.uid}


async def test_a_reservation_that_has_failed_is_not_bound() -> None:
    server = ApiServer(crds=[data.deploy("crds")], clock=FakeClock(NOW))
    await server.load()
    client = Client(ServerChannel(server))
    await client.create_raw(resource_of(Reservation), "", json.loads(encode(pending("r"))))
    known = await client.get(Reservation, "", "r")
    scene = Scene(objects=[known], client=client)
    reserve_pod = new_reserve_pod(known)
    state = scene.reserve(reserve_pod)
    await client.patch_status(Reservation, "", "r", {"status": {"phase": "Failed"}})
    status = await scene.framework.run_bind(state, reserve_pod, Binding(reserve_pod, "n1"))
    assert status.message.endswith(": reservation is not active")


@pytest.mark.parametrize("now", ["gone", "another"])
async def test_a_reservation_that_is_not_there_any_more_is_not_bound(now: str) -> None:
    scene = Scene(objects=[pending("r")], client=Client(ServerChannel(ApiServer())))
    reserve_pod = new_reserve_pod(pending("r"))
    state = scene.reserve(reserve_pod)
    scene.cluster.store(Reservation).discard("r")
    if now == "another":
        scene.show(copied(pending("r"), uid="another"))
    status = await scene.framework.run_bind(state, reserve_pod, Binding(reserve_pod, "n1"))
    assert status.message.endswith('reservation "r" not found')
