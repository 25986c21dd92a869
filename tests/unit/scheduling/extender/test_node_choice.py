"""If koordpy chooses the node, it is the one that kube-scheduler would have chosen."""

import json
import random
from typing import Any

from koordpy.lib.clock import FakeClock
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.extender.node_choice import PRESUMED_SECONDS
from koordpy.scheduling.interface import Plugin, Score
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.profiles.registry import Place, build, installed

from ..worlds import Binder, configuration, filter_body, node, pod_document, world


class Likes(Plugin, Score):
    """Scores nodes by the digits in their names."""

    name = "Likes"

    def score(self, state: CycleState, pod: Any, node: NodeInfo) -> int:
        return int(node.name[1:])


class Breaks(Plugin, Score):
    name = "Breaks"

    def score(self, state: CycleState, pod: Any, node: NodeInfo) -> int:
        raise RuntimeError("cannot say")


def chooser(*nodes: Any, plugin: type[Plugin] = Likes, **options: Any) -> Extender:
    cluster = world(nodes)
    handle = Handle(cluster, rng=random.Random(1))
    classes = dict(installed()) | {"DefaultBinder": Binder, plugin.name: plugin}
    config = configuration([plugin.name])
    profiles = build(config, lambda _: handle, place=Place.EXTENDER, classes=classes)
    made = Extender(profiles, handle, node_choice="koordpy", **options)
    for store in cluster.stores:
        store.synced = True
    return made


def kept(extender: Extender, document: dict[str, Any], names: list[str]) -> list[str]:
    answer = json.loads(extender.filter(filter_body(document, names))[0])
    assert not answer.get("Error")
    found: list[str] = answer["NodeNames"]
    return found


def test_only_the_best_node_is_kept() -> None:
    extender = chooser(node("n1"), node("n9"), node("n5"))
    assert kept(extender, pod_document("p"), ["n1", "n9", "n5"]) == ["n9"]
    [decision] = extender.decisions.of("default", "p")
    assert [score.node for score in decision.top_nodes] == ["n9", "n5", "n1"]
    assert decision.weights["NodeResourcesFit"] == 1
    assert decision.chosen_by == "koordpy"


def test_what_kube_scheduler_scores_counts_too() -> None:
    avoided = [{"key": "k", "effect": "PreferNoSchedule"}]
    extender = chooser(node("n1"), node("n9", taints=avoided))
    assert kept(extender, pod_document("p"), ["n1", "n9"]) == ["n1"]  # TaintToleration has weight 3


def test_equally_good_nodes_are_chosen_in_turn() -> None:
    extender = chooser(node("n1"), node("n01"), node("n001"))
    chosen = {kept(extender, pod_document(f"p{i}"), ["n1", "n01", "n001"])[0] for i in range(30)}
    assert chosen == {"n1", "n01", "n001"}


def test_a_pod_with_a_volume_claim_is_left_to_kube_scheduler() -> None:
    claim = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    extender = chooser(node("n1"), node("n2"))
    assert kept(extender, pod_document("p", volumes=claim), ["n1", "n2"]) == ["n1", "n2"]


def test_where_scoring_fails_kube_scheduler_chooses() -> None:
    extender = chooser(node("n1"), node("n2"), plugin=Breaks)
    assert kept(extender, pod_document("p"), ["n1", "n2"]) == ["n1", "n2"]


def test_rejections_are_reported_besides_the_chosen_node() -> None:
    extender = chooser(node("n1"), node("n9"))
    answer = json.loads(extender.filter(filter_body(pod_document("p"), ["n1", "n9", "n7"]))[0])
    assert answer["NodeNames"] == ["n9"]
    assert list(answer["FailedAndUnresolvableNodes"]) == ["n7"]


def chosen(extender: Extender, name: str) -> str:
    [node_name] = kept(extender, pod_document(name), ["n1", "n01"])
    return node_name


def test_a_pod_counts_on_its_node_before_it_is_bound() -> None:
    extender = chooser(node("n1"), node("n01"))  # equally good, until one has a pod
    for pair in range(5):
        assert {chosen(extender, f"p{pair}"), chosen(extender, f"q{pair}")} == {"n1", "n01"}


def test_a_pod_that_is_never_bound_is_forgotten() -> None:
    extender = chooser(node("n1"), node("n01"))
    first = chosen(extender, "p")
    clock = extender.clock
    assert isinstance(clock, FakeClock)
    clock.advance(PRESUMED_SECONDS + 1)
    again = set()
    for i in range(20):
        again.add(chosen(extender, f"q{i}"))
        clock.advance(PRESUMED_SECONDS + 1)
    assert first in again


def test_a_retried_pod_does_not_count_against_itself() -> None:
    extender = chooser(node("n1", cpu="4"), node("n01", cpu="8"))
    assert [chosen(extender, "p") for _ in range(3)] == ["n01"] * 3
