import asyncio

import numpy as np
import pytest

from koordpy import data
from koordpy.api.core import Pod, PodSpec
from koordpy.api.extension import ANNOTATION_EXACT_MATCH_RESERVATION, ANNOTATION_RESERVATION_ALLOCATED
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError
from koordpy.cluster.sandbox import Sandbox
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import PLACED
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.status import Code
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.scheduling.reservation.attempt.prepared import PREPARED
from koordpy_plugins.scheduling.reservation.commit.users import ReservationUsers
from tests.unit.scheduling.worlds import NOW, node, pod, pod_document, world

from ..scenes import Scene, claimant, copied, reservation, user

NO_MATCH = "node(s) no reservations match reservation affinity"


class TestFilter:
    def test_a_pod_with_affinity_goes_nowhere_but_into_a_reservation(self) -> None:
        scene = Scene([node("n1", cpu="10"), node("n2", cpu="10")], [reservation("r")])
        assert scene.reasons(claimant("x", "q", affinity="")) == {"": (NO_MATCH,)}
        _, outcome = scene.find(claimant("y", "r", affinity=""))
        assert list(outcome.kept.names) == ["n1"]

    def test_a_restricted_reservation_bounds_its_pods(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="4", allocatePolicy="Restricted"), user("a", "r", "3")])
        assert scene.reasons(claimant("x", "r", "2", affinity="")) == {
            "n1": ("Reservation(s) Insufficient cpu",)
        }
        assert scene.reasons(claimant("y", "r", "2", affinity='{"name":"r"}')) == {
            "n1": ("Reservation(s) Insufficient cpu, requested: 2000, used: 3000, capacity: 4000",)
        }
        assert scene.fits(claimant("z", "r", "1", affinity=""))

    def test_an_aligned_one_lets_them_take_of_the_node_too(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="4")])
        assert scene.fits(claimant("x", "r", "10"))
        assert scene.reasons(claimant("y", "r", "11")) == {"n1": ("Insufficient cpu by node",)}

    def test_one_reservation_is_used_and_the_others_stay_withheld(self) -> None:
        scene = Scene(objects=[reservation(n, cpu="4", owners=[{}]) for n in ("a", "b")])
        assert scene.fits(claimant("x", cpu="6"))
        assert scene.reasons(claimant("y", cpu="7")) == {"n1": ("Insufficient cpu by node",)}

    def test_nodes_that_refuse_equally_give_their_own_reasons(self) -> None:
        scene = Scene(
            [node(f"n{i}", cpu="10", memory="1Gi" if i % 2 else "8Gi") for i in range(1, 7)],
            [
                reservation(
                    f"r{i}", f"n{i}", owners=[{}], allocatePolicy="Restricted" if i > 4 else "Aligned"
                )
                for i in range(1, 7)
            ],
        )
        reasons = scene.reasons(claimant("x", cpu="5", containers=_containers("5", "2Gi")))
        assert reasons == {
            "n1": ("Insufficient memory by node",),
            "n3": ("Insufficient memory by node",),
            "n5": ("Insufficient memory by node",),
        }
        wanted = claimant("y", cpu="5", affinity="", containers=_containers("5", "2Gi"))
        assert scene.reasons(wanted) == {
            "n1": ("Insufficient memory by node",),
            "n3": ("Insufficient memory by node",),
            "n5": ("Insufficient memory by node", "Reservation(s) Insufficient cpu"),
            "n6": ("Reservation(s) Insufficient cpu",),
        }

    def test_an_unschedulable_reservation_is_entered_by_name_or_toleration(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="10", unschedulable=True)])
        tolerating = '{"tolerations":[{"key":"node.kubernetes.io/unschedulable","operator":"Exists"}]}'
        assert not scene.fits(claimant("x", "r"))
        assert scene.fits(claimant("y", "r", affinity='{"name":"r"}'))
        assert scene.fits(claimant("z", "r", affinity=tolerating))

    def test_an_answer_for_an_affinity_follows_changes(self) -> None:
        wanted = '{"reservationSelector":{"k":"v","zone":"a"}}'
        n1 = node("n1", cpu="10", labels={"zone": "a"})
        scene = Scene([n1], [reservation("r", labels={"k": "v"})])
        assert scene.fits(claimant("x", "r", affinity=wanted))
        scene.cluster.store(type(n1)).apply(node("n1", cpu="10", labels={"zone": "b"}))
        assert not scene.fits(claimant("x", "r", affinity=wanted))
        scene.cluster.store(type(n1)).apply(n1)
        assert scene.fits(claimant("x", "r", affinity=wanted))
        scene.show(reservation("r", labels={"k": "w"}))
        assert not scene.fits(claimant("x", "r", affinity=wanted))

    def test_a_bad_annotation_is_an_error_of_the_attempt(self) -> None:
        outcome = Scene(objects=[reservation("r")]).find(claimant("x", "r", affinity="["))[1]
        assert outcome.error is not None


def _containers(cpu: str, memory: str) -> list[dict[str, object]]:
    return [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]


class TestScore:
    def test_the_fuller_reservation_wins_and_an_order_goes_before_all(self) -> None:
        nodes = [node(f"n{i}", cpu="10") for i in (1, 2)]
        scene = Scene(nodes, [reservation(f"r{i}", f"n{i}", cpu=str(2 * i), owners=[{}]) for i in (1, 2)])
        assert _scores(scene, claimant("x", cpu="2")) == [100, 50]
        first = {"scheduling.koordinator.sh/reservation-order": "5"}
        scene.show(reservation("r2", "n2", cpu="4", owners=[{}], labels=first))
        assert _scores(scene, claimant("y", cpu="2")) == [10, 100]

    @pytest.mark.parametrize("changed", [False, True])
    def test_a_reservation_that_filled_up_since_filter_is_not_nominated(self, changed: bool) -> None:
        nodes = [node(f"n{i}", cpu="10") for i in (1, 2, 3)]
        made = [reservation(f"r{i}", f"n{i}", owners=[{}], allocatePolicy="Restricted") for i in (1, 2, 3)]
        scene = Scene(nodes, made)
        wanted = claimant("x", cpu="2")
        state, outcome = scene.find(wanted)
        if changed:
            scene.show(user("a", "r2", "3", "n2"))
        some = outcome.kept.subset(np.array([False, True, True]))
        scores, status = scene.framework.run_score(state, wanted, some)
        assert scores is not None, status
        prepared = state.read(PREPARED)
        assert prepared is not None
        nominated = {info.name for info in prepared.nominated_reservations.infos}
        assert nominated == ({"r3"} if changed else {"r2", "r3"})

    def test_pods_without_reservations_score_nothing(self) -> None:
        scene = Scene([node(f"n{i}", cpu="10") for i in (1, 2)], [reservation("r"), user("a", "r")])
        assert _scores(scene, pod("x")) == [0, 0]


def _scores(scene: Scene, wanted: Pod) -> list[int]:
    state, outcome = scene.find(wanted)
    scores, status = scene.framework.run_score(state, wanted, outcome.kept)
    assert scores is not None, status
    values: list[int] = scores.by_plugin["Reservation"].tolist()
    return values


class TestNominate:
    """Where only one node is left nothing is scored, and the reservation is chosen at Reserve."""

    @pytest.mark.parametrize(
        ("orders", "chosen"),
        [
            ({}, "b"),  # the fullest
            ({"a": "100"}, "a"),
            ({"a": "100", "c": "-5"}, "c"),
            ({"a": "7", "c": "7"}, "a"),
            ({"a": "0"}, "b"),
            ({"a": "first", "c": ""}, "b"),
        ],
    )
    def test_the_smallest_order_label_goes_before_the_fullest_reservation(
        self, orders: dict[str, str], chosen: str
    ) -> None:
        label = "scheduling.koordinator.sh/reservation-order"
        amounts = {"a": "4", "b": "2", "c": "3"}
        scene = Scene(
            objects=[
                reservation(
                    name, cpu=cpu, owners=[{}], labels={label: orders[name]} if name in orders else None
                )
                for name, cpu in amounts.items()
            ]
        )
        wanted = claimant("x", cpu="2")
        state, _ = scene.find(wanted)
        info, status = scene.plugin.nominate_reservation(state, wanted, "n1")
        assert status.is_success
        assert info is not None
        assert info.name == chosen


class TestReserve:
    def test_the_pod_is_counted_at_once_and_its_annotation_is_in_the_binding(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="8")])
        wanted = claimant("x", "r", "3")
        state = scene.reserve(wanted)
        assert scene.plugin.cache.infos["uid-r"].assigned.keys() == {"uid-x"}
        binding = Binding(wanted, "n1")
        assert asyncio.run(scene.framework.run_pre_bind(state, wanted, binding)).is_success
        text = binding.annotations[ANNOTATION_RESERVATION_ALLOCATED]
        assert text == '{"name":"r","uid":"uid-r"}'
        scene.framework.run_unreserve(state, wanted, "n1")
        assert not scene.plugin.cache.infos["uid-r"].assigned

    def test_a_bound_pod_stays_in_its_reservation(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="8")])
        wanted = claimant("x", "r", "3")
        state = scene.reserve(wanted)
        scene.show(user("x", "r", "3"))
        scene.framework.run_unreserve(state, wanted, "n1")
        scene.handle.forget_pod(wanted, "n1")
        assert scene.plugin.cache.infos["uid-r"].assigned.keys() == {"uid-x"}

    def test_a_pod_in_the_place_of_another_does_not_keep_the_other_in_the_reservation(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="8")])
        wanted = claimant("x", "r", "3")
        state = scene.reserve(wanted)
        scene.show(copied(user("x", "r", "3"), uid="another"))
        scene.framework.run_unreserve(state, wanted, "n1")
        assert scene.plugin.cache.infos["uid-r"].assigned.keys() == {"another"}

    def test_a_pod_that_is_not_bound_is_forgotten_with_its_assumption(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="8"), reservation("s", cpu="1")])
        for name in ("x", "y"):
            scene.reserve(claimant(name, "r", "3"))
        scene.handle.forget_pod(claimant("x", "r", "3"), "n1")
        assert scene.plugin.cache.infos["uid-r"].assigned.keys() == {"uid-y"}
        scene.handle.forget_pod(claimant("unknown"), "n1")
        assert scene.plugin.cache.infos["uid-r"].assigned.keys() == {"uid-y"}

    async def test_giving_back_a_pod_that_is_gone_clears_nothing(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="8")])
        scene.handle.client = Client(ServerChannel(ApiServer()))
        wanted = claimant("x", "r", "3")
        state = scene.reserve(wanted)
        assert (await scene.framework.run_pre_bind(state, wanted, Binding(wanted, "n1"))).is_success
        scene.cluster.store(Pod).discard(wanted.metadata.key)
        scene.plugin.unreserve(state, wanted, "n1")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    @pytest.mark.parametrize("annotation", ["none", "of another"])
    async def test_giving_back_leaves_the_annotation_of_another_reservation(self, annotation: str) -> None:
        scene = Scene(objects=[reservation("r", cpu="8"), reservation("s", cpu="1")])
        scene.handle.client = Client(ServerChannel(ApiServer()))
        wanted = claimant("x", "r", "3")
        state = scene.reserve(wanted)
        assert (await scene.framework.run_pre_bind(state, wanted, Binding(wanted, "n1"))).is_success
        waiting = claimant("x", "r", "3")
        if annotation == "of another":
            waiting.metadata.annotations = user("x", "s").metadata.annotations
        scene.show(waiting)
        scene.plugin.unreserve(state, wanted, "n1")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def test_only_the_same_pod_is_annotated_and_conflicts_are_tried_again(self) -> None:
        faults: list[Fault] = []
        server = ApiServer(faults=lambda method, _: faults.pop() if faults and method == "PATCH" else None)
        await server.load()
        client = Client(ServerChannel(server))
        document = pod_document("x", "3")
        del document["metadata"]["uid"], document["spec"]["nodeName"]
        document["spec"]["containers"][0]["image"] = "i"
        await client.create_raw(resource_of(Pod), "default", {"apiVersion": "v1", "kind": "Pod", **document})
        live = await client.get(Pod, "default", "x")
        users = ReservationUsers(Handle(world([]), client=client))
        with pytest.raises(ApiError):
            await users.write(copied(live, uid="another"), "text")
        faults.append(Fault(status=409))
        await users.write(live, "text")
        assert not faults
        live = await client.get(Pod, "default", "x")
        assert live.metadata.annotations[ANNOTATION_RESERVATION_ALLOCATED] == "text"

    @pytest.mark.parametrize(("bound_to", "kept"), [("n1", True), ("n2", True), ("", False)])
    async def test_giving_back_clears_the_annotation_of_a_pod_unless_it_is_bound(
        self, bound_to: str, kept: bool
    ) -> None:
        """A bind whose answer was lost may have succeeded, and the annotation is then all there is of it."""
        server = ApiServer(crds=[data.deploy("crds")], clock=FakeClock(NOW))
        await server.load()
        client = Client(ServerChannel(server))
        document = pod_document("x", "3", node_name=bound_to)
        del document["metadata"]["uid"]
        document["metadata"]["annotations"] = user("x", "r").metadata.annotations
        document["spec"]["containers"][0]["image"] = "i"
        await client.create_raw(resource_of(Pod), "default", {"apiVersion": "v1", "kind": "Pod", **document})
        live = await client.get(Pod, "default", "x")
        scene = Scene(objects=[reservation("r", cpu="8")], client=client)
        wanted = copied(claimant("x", "r", "3"), uid=live.metadata.uid)
        state = scene.reserve(wanted)
        assert (await scene.framework.run_pre_bind(state, wanted, Binding(wanted, "n1"))).is_success
        scene.show(live)
        scene.framework.run_unreserve(state, wanted, "n1")
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))
        live = await client.get(Pod, "default", "x")
        assert (ANNOTATION_RESERVATION_ALLOCATED in live.metadata.annotations) is kept

    def test_a_pod_that_vanished_is_forgotten(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="8")])
        wanted = claimant("x", "r", "3")
        scene.reserve(wanted)
        scene.cluster.store(Pod).discard(wanted.metadata.key)
        scene.handle.forget_pod(wanted, "n1")
        assert not scene.plugin.cache.infos["uid-r"].assigned

    def test_two_pods_never_get_the_same_reservation(self) -> None:
        scene = Scene(objects=[reservation(n, allocateOnce=True, owners=[{}]) for n in ("a", "b")])
        for name in ("x", "y"):
            scene.reserve(claimant(name))
        users = [info.assigned.keys() for info in scene.plugin.cache.infos.values()]
        assert sorted(map(sorted, users)) == [["uid-x"], ["uid-y"]]
        third = claimant("z")
        state, _ = scene.find(third)
        assert scene.plugin.nominate_reservation(state, third, "n1")[0] is None

    def test_a_second_pod_that_saw_the_same_is_refused_while_the_first_is_on_its_way(self) -> None:
        scene = Scene(objects=[reservation("r", allocateOnce=True)])
        first, second = (claimant(name, "r", affinity="") for name in ("x", "y"))
        state, _ = scene.find(second)
        scene.reserve(first)
        status = scene.framework.run_reserve(state, second, "n1")
        assert "target reservation is being allocated to another pod" in status.message
        assert scene.plugin.cache.infos["uid-r"].assigned.keys() == {"uid-x"}

    def test_what_is_being_deleted_takes_no_pod(self) -> None:
        scene = Scene(objects=[reservation("r")])
        wanted = claimant("x", "r", affinity='{"name":"r"}')
        state, _ = scene.find(wanted)
        scene.show(copied(reservation("r"), deletion_timestamp="2026-03-01T12:00:00Z"))
        status = scene.framework.run_reserve(state, wanted, "n1")
        assert "target reservation is terminating" in status.message

    def test_a_changed_reservation_makes_a_bind_filter_again(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="1")])
        table = scene.cluster.nodes
        row, moment = table.row_of("n1"), table.moment
        assert row is not None
        scene.show(reservation("s", cpu="1"))
        assert table.changed_since(row, moment)


class TestPreemption:
    def test_what_a_victim_frees_counts_where_it_was(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="4", allocatePolicy="Restricted"), user("a", "r", "4")])
        wanted = claimant("x", "r", "2", affinity="")
        state, outcome = scene.find(wanted)
        assert not outcome.feasible.any()
        what_if = state.clone()
        victim = next(iter(scene.cluster.nodes.pods_on(int(scene.nodes.rows[0]))))
        sandbox = Sandbox(scene.nodes)
        scene.framework.remove_pod(what_if, wanted, victim, NodeInfo(scene.nodes, 0))
        sandbox.take(0, [victim])
        assert scene.framework.run_filters(what_if, wanted, sandbox.nodes).feasible.all()
        scene.framework.add_pod(what_if, wanted, victim, NodeInfo(scene.nodes, 0))
        sandbox.put_back(0, victim)
        assert not scene.framework.run_filters(what_if, wanted, sandbox.nodes).feasible.any()
        assert not scene.framework.run_filters(state, wanted, scene.nodes).feasible.any()


def test_all_profiles_see_what_one_takes() -> None:
    scene = Scene(objects=[reservation("r", cpu="8")])
    other = Scene(handle=scene.handle.sibling())
    wanted = claimant("x", "r", "3")
    scene.reserve(wanted)
    scene.cluster.nodes.assume(wanted, "n1")
    assert other.plugin.cache.infos["uid-r"].assigned.keys() == {"uid-x"}
    assert not other.fits(pod("y", "3"))


@pytest.mark.parametrize(
    "text", ["1 Reservation(s) matched owner total", "1 Reservation(s) is unschedulable"]
)
def test_a_pod_that_fits_nowhere_hears_of_its_reservations(text: str) -> None:
    scene = Scene(objects=[reservation("r", unschedulable=True)])
    wanted = claimant("x", "r", affinity="")
    state, outcome = scene.find(wanted)
    _, status = asyncio.run(scene.framework.run_post_filter(state, wanted, outcome))
    assert text in status.reasons


def test_a_pod_of_a_gone_reservation_is_none_of_it_when_its_name_comes_again() -> None:
    scene = Scene(objects=[reservation("r"), user("a", "r")])
    scene.cluster.store(Reservation).discard("r")
    scene.show(copied(reservation("r"), uid="uid-new"))
    assert not scene.plugin.cache.infos["uid-new"].assigned


def test_terms_that_conflict_come_between_the_affinity_and_the_exact_match() -> None:
    scene = Scene(objects=[reservation("r")])
    fields = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("n1", "n2")]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    def code(reservation_affinity: str) -> Code:
        wanted = claimant("x", "r", affinity=reservation_affinity)
        wanted.metadata.annotations |= {ANNOTATION_EXACT_MATCH_RESERVATION: "bad"}
        wanted.spec.affinity = decode(PodSpec, {"affinity": affinity}).affinity
        outcome = scene.find(wanted)[1]
        return (outcome.error or outcome.prefilter).code

    assert code("{}") is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert code("bad") is Code.ERROR


class TestWhatIf:
    """Pods that a what-if has placed before are in the reservations that they would have got."""

    def look(self, scene: Scene, wanted: Pod, *placed: Pod) -> FilterOutcome:
        state = scene.framework.new_state()
        state.write(PLACED, {"n1": list(placed)})
        return scene.framework.find_feasible(state, wanted, scene.nodes.with_pods({"n1": list(placed)}))

    def test_what_is_used_up_is_not_offered_again(self) -> None:
        scene = Scene(objects=[reservation("r", allocateOnce=True)])
        first, second = (claimant(name, "r", affinity="") for name in ("x", "y"))
        assert self.look(scene, first).feasible.all()
        outcome = self.look(scene, second, first)
        assert outcome.prefilter.reasons == (NO_MATCH,)

    def test_a_restricted_one_fills_up(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="4", allocatePolicy="Restricted")])
        first, second = (claimant(name, "r", "3", affinity="") for name in ("x", "y"))
        outcome = self.look(scene, second, first)
        assert [status.reasons for status, _ in outcome.failed()] == [("Reservation(s) Insufficient cpu",)]

    def test_what_they_use_is_not_withheld_from_others_once_more(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="8")])
        assert self.look(scene, pod("other", "2"), claimant("x", "r", "5")).feasible.all()
        assert not self.look(scene, pod("other", "3"), claimant("x", "r", "5")).feasible.any()

    def test_the_cluster_is_not_touched(self) -> None:
        scene = Scene(objects=[reservation("r", cpu="8")])
        self.look(scene, claimant("y", "r", "3"), claimant("x", "r", "5"))
        assert not scene.plugin.cache.infos["uid-r"].assigned
