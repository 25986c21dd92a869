"""What plans may keep in memory, and what jobs are told that would take more."""

import json
from collections.abc import Iterator

import pytest

from koordpy.lib.deep_size import deep_size
from koordpy.scheduling.extender.extender import Extender
from koordpy.scheduling.gangs import held
from koordpy.scheduling.profiles.registry import installed

from ..worlds import extender, filter_body, node, pod, pod_document, world
from .test_jobs import Together

IN_TREE = [installed()[name] for name in ("NodeResourcesFit", "PodTopologySpread", "InterPodAffinity")]
NAMES = [f"n{i}" for i in range(4)]


@pytest.fixture
def made() -> Iterator[Extender]:
    """A cluster with room, and two jobs of two pods."""
    pods = [pod(f"{job}-{i}") for job in "ab" for i in range(2)]
    extended = extender(world([node(name) for name in NAMES], pods), *IN_TREE, Together)
    yield extended
    extended.close("end")


def told(made: Extender, name: str) -> str:
    """Filter a pod; return why it was refused, empty if it was not."""
    answer = json.loads(made.filter(filter_body(pod_document(name), NAMES))[0])
    if answer["Error"]:
        return str(answer["Error"])
    return "" if answer["NodeNames"] else str(next(iter(answer["FailedAndUnresolvableNodes"].values())))


async def test_held_plans_are_counted_until_they_end(made: Extender) -> None:
    budget = made.jobs.held._budget
    assert told(made, "a-0") == ""
    assert budget.entries == 2
    assert budget.held > 2 * held.PLACEMENT_BYTES
    made.jobs.held.close("not needed")
    assert (budget.entries, budget.held) == (0, 0)


async def test_what_is_taken_over_by_binds_is_counted_no_more(made: Extender) -> None:
    assert told(made, "a-0") == ""
    for uid in ("uid-a-0", "uid-a-1"):
        placement = made.jobs.held.take(uid, made.nodes.placed_on(uid) or "")
        assert placement is not None
        placement.roll_back()
    assert made.jobs.held._budget.held == 0


async def test_a_job_waits_for_others_that_take_the_memory(made: Extender) -> None:
    made.jobs.held._budget.limit = 3 * held.PLACEMENT_BYTES
    assert told(made, "a-0") == ""
    message = told(made, "b-0")
    assert message.startswith("b is planned when more of the 2 pods are bound that are planned already")
    assert len(made.jobs.held) == 2
    made.jobs.held.close("bound, say")
    assert told(made, "b-0") == ""


async def test_a_job_that_is_too_large_for_the_memory_is_told_so(made: Extender) -> None:
    made.jobs.held._budget.limit = held.PLACEMENT_BYTES
    assert told(made, "a-0") == "the 2 pods of a take 0 MiB of memory, of which plans may take 0 MiB"
    assert len(made.jobs.held) == 0


async def test_a_job_of_too_many_pods_is_told_so(made: Extender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "MOST_PODS", 1)
    assert told(made, "a-0") == "2 pods of a wait for a node, and at most 1 can be planned together"
    assert len(made.jobs.held) == 0


async def test_counts_by_node_are_not_kept_with_a_plan() -> None:
    """They have a number for every node, and every member would keep its own."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    nodes = [node(f"n{i}", labels={"kubernetes.io/hostname": f"n{i}"}) for i in range(300)]
    pods = [pod(f"a-{i}", topologySpreadConstraints=[constraint]) for i in range(6)]
    made = extender(world(nodes, pods), *IN_TREE, Together)
    names = [each.metadata.name for each in nodes]
    document = pod_document("a-0", topologySpreadConstraints=[constraint])
    assert json.loads(made.filter(filter_body(document, names))[0])["NodeNames"]
    [plan] = made.jobs.held
    assert len(plan.placements) == 6
    for placement in plan.placements.values():
        own = {
            name: deep_size(value, 1 << 20)
            for name, value in placement.state._values.items()
            if "PodTopologySpread" in name
        }
        assert not own
    made.close("end")
