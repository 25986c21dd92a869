"""Identical pods of several jobs share one evaluation of the nodes, as good as single cycles."""

import json
import random

import pytest

from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.gangs.planner import Planner
from koordpy.scheduling.interface import Plugin

from ..worlds import extender, filter_body, node, pod, pod_document, world
from .test_evaluations import IN_TREE, AtMost, Signed
from .test_jobs import Together

SIZE = {"cpu": "1100m", "memory": "3Gi"}


def jobs(count: int, members: int) -> list[str]:
    return [f"{chr(ord('a') + job)}-{i}" for job in range(count) for i in range(members)]


def cluster_of(seed: int, names: list[str], *plugins: type[Plugin]) -> tuple[Extender, list[str]]:
    """An extender, the pods to be planned, and the names of its 30 nodes, each with another room."""
    rng = random.Random(seed)
    nodes = [
        node(f"n{i}", cpu=f"{rng.randrange(1500, 9000) * 7 + i}m", memory=f"{40 + i}Gi") for i in range(30)
    ]
    made = extender(world(nodes, [pod(name, **SIZE) for name in names]), *IN_TREE, *plugins)
    return made, [each.metadata.name for each in nodes]


def placed(made: Extender, names: list[str]) -> list[str | None]:
    return [made.nodes.placed_on(f"uid-{name}") for name in names]


def ask(made: Extender, name: str, offered: list[str]) -> dict[str, object]:
    answer: dict[str, object] = json.loads(made.filter(filter_body(pod_document(name, **SIZE), offered))[0])
    return answer


@pytest.fixture
def cycles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods for which all nodes were evaluated."""
    pods: list[str] = []
    cycle = Planner._whole_cycle

    def counted(self, framework, whole, pod, *rest):
        pods.append(pod.metadata.name)
        return cycle(self, framework, whole, pod, *rest)

    monkeypatch.setattr(Planner, "_whole_cycle", counted)
    return pods


async def test_pods_of_other_jobs_need_no_cycle(cycles: list[str]) -> None:
    names = jobs(5, 3)
    made, nodes = cluster_of(1, names, Signed)
    for name in names:
        assert ask(made, name, nodes)["NodeNames"]
    assert cycles == ["a-0"]
    made.close("end")


async def test_pods_that_plugins_do_not_sign_have_a_cycle_each(cycles: list[str]) -> None:
    names = jobs(2, 3)
    made, nodes = cluster_of(1, names, Together)
    for name in names:
        assert ask(made, name, nodes)["NodeNames"]
    assert cycles == names
    made.close("end")


@pytest.mark.parametrize("seed", range(8))
async def test_no_node_is_better_than_the_chosen_one(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an evaluation for each pod alone finds, with the pods before it in place."""
    names = jobs(8, 1 + seed % 4)
    made, nodes = cluster_of(seed, names, Signed)
    whole = made.profiles.whole_of("")
    assert whole is not None
    reserve = Planner._reserve
    compared: list[str] = []

    def comparing(self, framework, state, pod, node_name):
        own = whole.new_state()
        kept = whole.find_feasible(own, pod, made.nodes.all()).kept
        scores, _ = whole.run_score(own, pod, kept)
        assert scores is not None
        assert scores.total[kept.names.index(node_name)] == scores.total.max()
        compared.append(pod.metadata.name)
        return reserve(self, framework, state, pod, node_name)

    monkeypatch.setattr(Planner, "_reserve", comparing)
    for name in names:
        assert ask(made, name, nodes)["NodeNames"]
    assert compared == names
    made.close("end")


@pytest.mark.parametrize("seed", range(8))
async def test_as_many_jobs_fit_as_with_single_cycles(seed: int) -> None:
    """Of identical pods, a cluster holds the same number wherever each of them goes."""
    rng = random.Random(seed)
    names = jobs(12, 3)
    nodes = [node(f"n{i}", cpu=f"{rng.randrange(1, 6)}200m") for i in range(8)]
    fitting = []
    for together in (Together, Signed):
        made = extender(world(nodes, [pod(name, **SIZE) for name in names]), *IN_TREE, together)
        offered = [each.metadata.name for each in nodes]
        found = [bool(ask(made, f"{job}-0", offered)["NodeNames"]) for job in "abcdefghijkl"]
        fitting.append(sum(found))
        table = made.nodes
        assert (table.requested[: len(nodes), 0] <= table.allocatable[: len(nodes), 0]).all()
        made.close("end")
    assert fitting[0] == fitting[1] < 12


async def test_a_pod_whose_node_is_not_offered_goes_to_the_best_that_is(cycles: list[str]) -> None:
    names = jobs(3, 3)
    made, nodes = cluster_of(2, names, Signed)
    for name in names:
        assert ask(made, name, nodes)["NodeNames"]
    (planned,) = placed(made, ["c-1"])
    others = [each for each in nodes if each != planned]
    answer = ask(made, "c-1", others)
    assert answer["NodeNames"] == placed(made, ["c-1"]) != [planned]
    assert cycles == ["a-0"]
    assert len(made.jobs.held) == len(names)
    made.close("end")


async def test_pre_filter_runs_for_each_pod_of_each_job() -> None:
    names = jobs(2, 3)
    made, nodes = cluster_of(1, names, Signed, AtMost)
    assert ask(made, "a-0", nodes)["NodeNames"]
    reasons = ask(made, "b-0", nodes)["FailedAndUnresolvableNodes"]
    assert isinstance(reasons, dict)
    (message,) = set(reasons.values())
    assert message.startswith("2 of 3 pods of b fit; pod default/b-2 does not: ")
    assert "five are enough" in message
    assert placed(made, names[3:]) == [None] * 3
    made.close("end")
