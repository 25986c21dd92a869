"""kube-scheduler's calls, one after the other, with reservations in the cluster."""

import json
import random
from collections.abc import Sequence
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.extension import (
    ANNOTATION_EXACT_MATCH_RESERVATION,
    ANNOTATION_RESERVATION_ALLOCATED,
    LABEL_POD_OPERATING_MODE,
)
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode, encode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.profiles.registry import Place, build, installed
from koordpy_plugins.scheduling.reservation.plugin import Reservation as ReservationPlugin
from koordpy_plugins.scheduling.reservation.state.cache import ReservationCache
from koordpy_plugins.scheduling.stock.nodeports.plugin import NodePorts
from koordpy_plugins.scheduling.stock.noderesourcesfit.plugin import NodeResourcesFit
from tests.unit.scheduling.worlds import (
    Binder,
    bind_body,
    configuration,
    extender,
    filter_body,
    node,
    pod,
    pod_document,
    world,
)

from .scenes import claimant, reservation, user


class _Caller:
    def __init__(self, *objects: Any) -> None:
        self.cluster: Cluster = world([node("n1", cpu="10"), node("n2", cpu="10")])
        self.extender = extender(self.cluster, ReservationPlugin, NodeResourcesFit, NodePorts)
        self.show(*objects)

    def show(self, *objects: Any) -> None:
        for each in objects:
            self.cluster.store(type(each)).apply(each)

    def filter(self, wanted: Pod, names: Sequence[str] = ("n1", "n2")) -> list[str]:
        self.show(wanted)
        document = json.loads(encode(wanted))
        answer, _ = self.extender.filter(filter_body(document, names))
        kept: list[str] = json.loads(answer)["NodeNames"]
        return kept

    def prioritize(self, wanted: Pod, names: Sequence[str]) -> dict[str, int]:
        answer = self.extender.prioritize(filter_body(json.loads(encode(wanted)), names))
        return {each["Host"]: each["Score"] for each in json.loads(answer)}

    async def bind(self, wanted: Pod, node_name: str) -> str:
        answer = json.loads(await self.extender.bind(bind_body(json.loads(encode(wanted)), node_name)))
        error: str = answer.get("Error", "")
        return error

    def live(self, wanted: Pod) -> Pod:
        found = self.cluster.store(Pod).by_key(wanted.metadata.key)
        assert found is not None
        return found


async def test_an_owner_prefers_its_reservation_and_is_annotated_with_it() -> None:
    caller = _Caller(reservation("r", cpu="8"))
    assert caller.filter(pod("other", "5")) == ["n2"]
    wanted = claimant("x", "r", "5")
    assert caller.filter(wanted) == ["n1", "n2"]
    scores = caller.prioritize(wanted, ["n1", "n2"])
    assert scores["n1"] > scores["n2"]
    assert await caller.bind(wanted, "n1") == ""
    text = caller.live(wanted).metadata.annotations[ANNOTATION_RESERVATION_ALLOCATED]
    assert json.loads(text) == {"name": "r", "uid": "uid-r"}
    cache = caller.cluster.shared(ReservationCache)
    assert cache.infos["uid-r"].assigned.keys() == {"uid-x"}
    assert caller.filter(claimant("y", "r", "6", affinity="")) == []


async def test_of_two_pods_that_saw_the_same_reservation_one_gets_it() -> None:
    caller = _Caller(reservation("r", cpu="8", allocatePolicy="Restricted"))
    first, second = (claimant(name, "r", "5", affinity="") for name in ("x", "y"))
    for wanted in (first, second):
        assert caller.filter(wanted) == ["n1"]
    assert await caller.bind(first, "n1") == ""
    assert "Reservation(s) Insufficient cpu" in await caller.bind(second, "n1")


async def test_a_reservation_that_came_after_the_filter_call_is_seen_by_the_bind_call() -> None:
    caller = _Caller()
    wanted = pod("other", "5")
    assert caller.filter(wanted) == ["n1", "n2"]
    caller.show(reservation("r", cpu="8"))
    assert "Insufficient cpu" in await caller.bind(wanted, "n1")
    assert caller.filter(wanted) == ["n2"]
    assert await caller.bind(wanted, "n2") == ""


async def test_after_a_restart_a_bind_call_finds_the_reservation_anew() -> None:
    caller = _Caller(reservation("r", cpu="8"))
    wanted = claimant("x", "r", "5", affinity="")
    caller.show(wanted)
    assert await caller.bind(wanted, "n2") != ""
    assert await caller.bind(wanted, "n1") == ""
    assert ANNOTATION_RESERVATION_ALLOCATED in caller.live(wanted).metadata.annotations


# --- pods that are the same, where koordpy chooses the node ------------------------------------------


def _chooser(*objects: Any) -> Extender:
    cluster = world([node(f"n{i}", cpu="10") for i in range(1, 6)])
    for each in objects:
        cluster.store(type(each)).apply(each)
    handle = Handle(cluster, rng=random.Random(1))
    classes = dict(installed()) | {Binder.name: Binder}
    config = configuration([ReservationPlugin.name])
    made = Extender(
        build(config, lambda _: handle, place=Place.EXTENDER, classes=classes), handle, node_choice="koordpy"
    )
    for store in cluster.stores:
        store.synced = True
    return made


def _asked(made: Extender, wanted: Pod, *names: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(made.filter(filter_body(json.loads(encode(wanted)), names))[0])
    return answer


def _labelled(name: str, metadata: dict[str, Any]) -> Pod:
    document = pod_document(name)
    document["metadata"].update(metadata)
    return decode(Pod, document)


def test_a_pod_that_acts_as_a_reservation_is_kept_from_reservations_that_its_like_do_not_mind() -> None:
    made = _chooser(reservation("r", cpu="2", allocatePolicy=""), user("user", "r"))
    for i in range(2):
        assert _asked(made, pod(f"p{i}"), "n2", "n3")["NodeNames"]
    operating = _labelled("operating", {"labels": {LABEL_POD_OPERATING_MODE: "Reservation"}})
    answer = _asked(made, operating, "n1", "n1")
    assert answer["FailedAndUnresolvableNodes"] == {"n1": "node(s) reservation allocate policy conflict"}
    assert _asked(made, pod("p2"), "n1", "n1")["NodeNames"] == ["n1"]


def test_an_annotation_that_cannot_be_read_is_found_in_a_pod_like_others() -> None:
    made = _chooser()
    for i in range(2):
        assert _asked(made, pod(f"p{i}"), "n1", "n2")["NodeNames"]
    broken = _labelled("broken", {"annotations": {ANNOTATION_EXACT_MATCH_RESERVATION: "[]"}})
    assert ANNOTATION_EXACT_MATCH_RESERVATION in _asked(made, broken, "n3", "n4")["Error"]


def test_a_reservation_that_comes_between_two_pods_serves_the_second() -> None:
    made = _chooser()
    for i in range(2):
        assert _asked(made, pod(f"p{i}", "7"), "n1", "n2")["NodeNames"]
    made.handle.cluster.store(Reservation).apply(reservation("r", "n3", cpu="8"))
    wanted = claimant("x", "r", "7")
    wanted.spec = pod("p", "7").spec
    assert _asked(made, wanted, "n3", "n4")["NodeNames"] == ["n3"]
    assert _asked(made, pod("p2", "7"), "n3", "n4")["NodeNames"] == ["n4"]
