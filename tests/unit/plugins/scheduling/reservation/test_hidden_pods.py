"""Affinity terms and spread constraints are about reserve pods too, which kube-scheduler does not know."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.reserve_pod import new_reserve_pod
from koordpy.api.scheme import decode, encode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.pod_counts import PodCounts
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.profiles.registry import Place, build, installed
from koordpy_plugins.scheduling.reservation.plugin import Reservation as ReservationPlugin
from koordpy_plugins.scheduling.stock.interpodaffinity.plugin import REASON_ANTI_AFFINITY, REASON_EXISTING
from koordpy_plugins.scheduling.stock.podtopologyspread.plugin import REASON as REASON_SPREAD
from tests.unit.scheduling.worlds import (
    Binder,
    bind_body,
    configuration,
    filter_body,
    node,
    pod_document,
    world,
)

from .scenes import copied, pending, reservation

HOST = "kubernetes.io/hostname"
LABELS = {"app": "a"}


def _term(app: str, key: str = HOST) -> list[dict[str, Any]]:
    return [{"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}]


def away_from(app: str, key: str = HOST) -> dict[str, Any]:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _term(app, key)}}


def near(app: str) -> dict[str, Any]:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _term(app)}}


def spread(app: str) -> list[dict[str, Any]]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
    ]


def template(labels: Mapping[str, str] = LABELS, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    return {"metadata": {"labels": dict(labels)}, "spec": {"containers": [container], **spec}}


def a_pod(labels: Mapping[str, str] = LABELS, name: str = "x", **spec: Any) -> Pod:
    document = pod_document(name, **spec)
    document["metadata"]["labels"] = dict(labels)
    return decode(Pod, document)


class Caller:
    """What kube-scheduler asks an extender with the Reservation plugin, all in-tree plugins installed."""

    def __init__(self, *objects: Any, zones: Sequence[str] = ("", "")) -> None:
        self.names = [f"n{i}" for i in range(1, len(zones) + 1)]
        labels = [{HOST: name, "zone": zone} for name, zone in zip(self.names, zones, strict=True)]
        self.cluster: Cluster = world(
            node(name, cpu="10", labels=of_node) for name, of_node in zip(self.names, labels, strict=True)
        )
        handle = Handle(self.cluster)
        self.profiles = build(
            configuration([ReservationPlugin.name]),
            lambda _: handle,
            place=Place.EXTENDER,
            classes=dict(installed()) | {Binder.name: Binder},
        )
        self.extender = Extender(self.profiles, handle)
        self.show(*objects)
        for store in self.cluster.stores:
            store.synced = True

    def show(self, *objects: Any) -> None:
        for each in objects:
            self.cluster.store(type(each)).apply(each)

    def filter(self, wanted: Pod) -> tuple[list[str], dict[str, str]]:
        """Return the nodes that are left, and why the others are not."""
        self.show(wanted)
        answer = json.loads(self.extender.filter(filter_body(json.loads(encode(wanted)), self.names))[0])
        assert not answer.get("Error")
        refused = {**(answer.get("FailedNodes") or {}), **(answer.get("FailedAndUnresolvableNodes") or {})}
        return answer.get("NodeNames") or [], refused

    async def bind(self, wanted: Pod, node_name: str) -> str:
        body = bind_body(json.loads(encode(wanted)), node_name)
        error: str = json.loads(await self.extender.bind(body)).get("Error", "")
        return error

    @property
    def reran(self) -> set[str]:
        """Which of the filters that compare pods with pods ran again for the pod `x`."""
        attempt = self.extender.attempts.get("uid-x")
        assert attempt is not None
        return {"InterPodAffinity", "PodTopologySpread"} - attempt.state.skip_filter


def test_a_pod_is_kept_from_reserve_pods_that_its_anti_affinity_matches() -> None:
    caller = Caller(reservation("r", template=template()))
    assert caller.filter(a_pod(affinity=away_from("a"))) == (["n2"], {"n1": REASON_ANTI_AFFINITY})


def test_a_pod_is_kept_from_reserve_pods_whose_anti_affinity_matches_it() -> None:
    caller = Caller(reservation("r", template=template({}, affinity=away_from("a"))))
    assert caller.filter(a_pod()) == (["n2"], {"n1": REASON_EXISTING})
    assert caller.filter(a_pod({"app": "b"}))[0] == ["n1", "n2"]


def test_a_domain_of_several_nodes_is_refused_as_a_whole() -> None:
    caller = Caller(reservation("r", template=template()), zones=("a", "a", "b"))
    assert caller.filter(a_pod(affinity=away_from("a", "zone")))[0] == ["n3"]


def test_reserve_pods_count_for_spread_constraints() -> None:
    caller = Caller(reservation("r", template=template()))
    kept, refused = caller.filter(a_pod(topologySpreadConstraints=spread("a")))
    assert (kept, refused) == (["n2"], {"n1": REASON_SPREAD})


@pytest.mark.parametrize(
    "spec", [{"affinity": away_from("a")}, {"topologySpreadConstraints": spread("a")}], ids=str
)
def test_an_owner_does_not_mind_the_reserve_pod_of_its_own_reservation(spec: dict[str, Any]) -> None:
    made = reservation(
        "r", template=template(affinity=away_from("a")), owners=[{"labelSelector": {"matchLabels": LABELS}}]
    )
    assert Caller(made).filter(a_pod(**spec))[0] == ["n1", "n2"]


def test_the_namespace_of_the_template_counts() -> None:
    made = template()
    made["metadata"]["namespace"] = "elsewhere"
    assert Caller(reservation("r", template=made)).filter(a_pod(affinity=away_from("a")))[0] == ["n1", "n2"]


@pytest.mark.parametrize(
    ("objects", "wanted", "reran"),
    [
        ([], a_pod(affinity=away_from("a"), topologySpreadConstraints=spread("a")), set()),
        ([reservation("r", template=template())], a_pod(), set()),
        ([reservation("r", template=template())], a_pod(affinity=away_from("b")), set()),
        ([reservation("r", template=template())], a_pod(topologySpreadConstraints=spread("b")), set()),
        ([reservation("r", template=template())], a_pod(affinity=away_from("a")), {"InterPodAffinity"}),
        ([reservation("r", template=template())], a_pod(affinity=near("a")), {"InterPodAffinity"}),
        (
            [reservation("r", template=template())],
            a_pod(topologySpreadConstraints=spread("a")),
            {"PodTopologySpread"},
        ),
        (
            [reservation("r", template=template({}, affinity=away_from("a")))],
            a_pod(),
            {"InterPodAffinity"},
        ),
    ],
)
def test_filters_run_again_only_where_a_hidden_pod_matters(
    objects: list[Any], wanted: Pod, reran: set[str]
) -> None:
    caller = Caller(*objects)
    caller.filter(wanted)
    assert caller.reran == reran


def test_a_reservation_that_ends_or_changes_is_hidden_no_more() -> None:
    made = reservation("r", template=template())
    caller = Caller(made)
    hidden = caller.cluster.nodes.hidden
    assert [pod.metadata.uid for pod in hidden] == ["uid-r"]
    version = hidden.version
    caller.show(copied(made, annotations={"any": "thing"}))
    assert hidden.version == version
    caller.show(reservation("r", template=template({"app": "b"})))
    assert caller.filter(a_pod(affinity=away_from("a")))[0] == ["n1", "n2"]
    assert caller.filter(a_pod(affinity=away_from("b")))[0] == ["n2"]
    caller.show(reservation("r", phase="Succeeded", template=template({"app": "b"})))
    assert not hidden
    assert caller.filter(a_pod(affinity=away_from("b")))[0] == ["n1", "n2"]


async def test_a_reserve_pod_that_came_after_the_filter_call_is_seen_by_the_bind_call() -> None:
    caller = Caller(zones=("a", "a", "b"))
    wanted = a_pod(affinity=away_from("a", "zone"))
    assert caller.filter(wanted)[0] == ["n1", "n2", "n3"]
    caller.show(reservation("r", "n2", template=template()))
    assert REASON_ANTI_AFFINITY in await caller.bind(wanted, "n1")  # another node of the same zone
    assert caller.filter(wanted)[0] == ["n3"]
    assert await caller.bind(wanted, "n3") == ""


def test_reservations_keep_from_each_other_as_pods_do() -> None:
    caller = Caller(reservation("r", template=template(affinity=away_from("a"))))
    new = pending("new", template=template(affinity=away_from("a")))
    caller.show(new)
    whole = caller.profiles.whole_of("default-scheduler")
    assert whole is not None
    outcome = whole.find_feasible(whole.new_state(), new_reserve_pod(new), caller.cluster.nodes.all())
    assert outcome.kept.names == ["n2"]


def test_a_pod_that_a_reserve_pods_term_matches_is_not_signed() -> None:
    caller = Caller()
    whole = caller.profiles.whole_of("default-scheduler")
    assert whole is not None
    wanted = a_pod()
    assert whole.signer.sign(wanted) is not None
    caller.show(reservation("r", template=template({}, affinity=away_from("a"))))
    assert whole.signer.sign(wanted) is None
    assert whole.signer.sign(a_pod({"app": "b"})) is not None


def test_eviction_is_not_proposed_where_a_reserve_pod_keeps_the_pod_away() -> None:
    victim = a_pod({}, "victim", cpu="10", node_name="n1", priority=0)
    caller = Caller(victim, copied(victim, name="other", uid="uid-other"))
    wanted = a_pod(cpu="9", priority=10, affinity=away_from("a"))
    body = json.dumps(
        {
            "Pod": json.loads(encode(wanted)),
            "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "uid-victim"}], "NumPDBViolations": 0}},
        }
    ).encode()
    caller.cluster.store(Pod).discard("default/other")
    assert "n1" in json.loads(caller.extender.preempt(body))["NodeNameToMetaVictims"]
    made = template()
    made["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "0"
    caller.show(reservation("r", cpu="0", template=made))
    assert not json.loads(caller.extender.preempt(body))["NodeNameToMetaVictims"]


def test_counts_of_hidden_pods_equal_a_rebuild() -> None:
    lived, objects = Caller(), [reservation(f"r{i}", f"n{i}", template=template()) for i in (1, 2)]
    lived.cluster.shared(PodCounts)
    lived.show(*objects)
    lived.cluster.store(type(objects[0])).discard("r1")
    lived.show(objects[0], reservation("r2", "n1", template=template({"app": "b"})))
    fresh = Caller(objects[0], reservation("r2", "n1", template=template({"app": "b"})))
    assert lived.cluster.shared(PodCounts).snapshot() == fresh.cluster.shared(PodCounts).snapshot()
    assert [pod.metadata.uid for pod in lived.cluster.nodes.hidden] == ["uid-r1", "uid-r2"]


def test_hidden_pods_leave_with_their_node_and_come_back_with_it() -> None:
    caller = Caller(reservation("r", template=template()))
    gone = caller.cluster.nodes.node(caller.cluster.nodes.row_of("n1") or 0)
    assert gone is not None
    caller.cluster.store(type(gone)).discard("n1")
    assert not caller.cluster.nodes.hidden
    caller.show(gone)
    assert caller.filter(a_pod(affinity=away_from("a")))[0] == ["n2"]
