"""Identical pods of a job are placed as if each were evaluated alone."""

import json
import random
from collections.abc import Hashable

import pytest

from koordpy.api.core import Pod
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.gangs.planner import Planner
from koordpy.scheduling.interface import Plugin, PreFilter, SignPlugin
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles.registry import installed

from ..worlds import extender, filter_body, node, pod, pod_document, world
from .test_jobs import Together

IN_TREE = [installed()[name] for name in ("NodeResourcesFit", "NodeResourcesBalancedAllocation")]


class Signed(Together, SignPlugin):
    """The same, with pods that are known to be identical within their job, and there alone."""

    name = "Together"

    def sign_pod(self, pod: Pod) -> Hashable | None:
        return None

    def sign_member(self, pod: Pod) -> Hashable | None:
        return ()


class AtMost(Plugin, PreFilter, SignPlugin):
    """Rejects pods once five are on nodes."""

    name = "AtMost"
    for_each_pod = True

    def pre_filter(self, state, pod, nodes):
        table = self.handle.nodes
        on_nodes = [each for each in self.handle.cluster.store(Pod) if table.placed_on(each.metadata.uid)]
        return None, Status.unschedulable("five are enough") if len(on_nodes) >= 5 else SUCCESS


def planned(together: type[Plugin], seed: int, pods: int) -> Extender:
    rng = random.Random(seed)
    nodes = [
        node(f"n{i}", cpu=f"{rng.randrange(1500, 9000) * 7 + i}m", memory=f"{40 + i}Gi") for i in range(30)
    ]
    names = [each.metadata.name for each in nodes]
    cluster = world(nodes, [pod(f"a-{i}", cpu="1100m", memory="3Gi") for i in range(pods)])
    made = extender(cluster, *IN_TREE, together)
    made.handle.rng.randrange = lambda *_: 0  # type: ignore[method-assign]  # of equally good nodes, the first
    body = filter_body(pod_document("a-0", cpu="1100m", memory="3Gi"), names)
    answer = json.loads(made.filter(body)[0])
    assert answer["NodeNames"], answer
    return made


def where(made: Extender, pods: int) -> list[str | None]:
    return [made.nodes.placed_on(f"uid-a-{i}") for i in range(pods)]


@pytest.mark.parametrize("seed", range(12))
async def test_the_nodes_are_those_of_single_cycles(seed: int) -> None:
    pods = 10 + 10 * (seed % 4)
    alone, alike = planned(Together, seed, pods), planned(Signed, seed, pods)
    whole = alike.profiles.whole_of("")
    assert whole is not None
    assert whole.signer.silent == []
    assert where(alike, pods) == where(alone, pods)
    for made in (alone, alike):
        made.close("end")


async def test_identical_pods_share_one_pass_over_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[str] = []
    cycle = Planner._whole_cycle

    def counted(self, framework, whole, pod, *rest):
        passes.append(pod.metadata.name)
        return cycle(self, framework, whole, pod, *rest)

    monkeypatch.setattr(Planner, "_whole_cycle", counted)
    planned(Signed, 1, 10).close("end")
    assert passes == ["a-0"]  # which has only the nodes that kube-scheduler offers
    passes.clear()
    planned(Together, 1, 10).close("end")
    assert len(passes) == 10


async def test_pods_that_differ_are_evaluated_by_themselves() -> None:
    made = planned(Signed, 1, 4)
    made.close("end")
    store = made.handle.cluster.store(Pod)
    store.apply(pod("a-2", cpu="9", memory="3Gi"))
    names = [made.nodes.name_of(int(row)) for row in made.nodes.all().rows]
    document = pod_document("a-0", cpu="1100m", memory="3Gi")
    assert json.loads(made.filter(filter_body(document, names))[0])["NodeNames"]
    row = made.nodes.row_of(made.nodes.placed_on("uid-a-2") or "")
    assert row is not None
    assert made.nodes.requested[row, 0] >= 9000
    made.close("end")


async def test_pre_filter_runs_for_each_pod_if_the_plugin_asks_for_it() -> None:
    cluster = world([node("a"), node("b")], [pod(f"a-{i}") for i in range(6)])
    made = extender(cluster, *IN_TREE, Signed, AtMost)
    answer = json.loads(made.filter(filter_body(pod_document("a-0"), ["a", "b"]))[0])
    (message,) = set(answer["FailedAndUnresolvableNodes"].values())
    assert message.startswith("5 of 6 pods of a fit; pod default/a-5 does not")
    assert "five are enough" in message
