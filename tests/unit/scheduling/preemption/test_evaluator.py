"""Which pods may preempt, on which nodes, and the resulting messages."""

from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.api.core import Pod
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Filter, Plugin, PreFilter
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import PostFilterResult
from koordpy.scheduling.interface.status import SUCCESS, Code, Status
from koordpy.scheduling.preemption import Rules
from koordpy_plugins.scheduling.stock.defaultpreemption.plugin import DefaultPreemption
from koordpy_plugins.scheduling.stock.noderesourcesfit.plugin import NodeResourcesFit
from tests.unit.scheduling.worlds import framework, node, pod, world

CLEARED = PostFilterResult("", override=True)


class NotHere(Plugin, Filter):
    """Rejects nodes whose names begin with x as unresolvable."""

    name = "NotHere"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status.unresolvable("not here") if node.name.startswith("x") else SUCCESS


def profile(cluster: Cluster, *more: type[Plugin], **args: Any) -> Framework:
    return framework(cluster, NotHere, NodeResourcesFit, *more, DefaultPreemption, args=args)


async def preempted(fw: Framework, preemptor: Pod) -> tuple[PostFilterResult | None, Status]:
    state = fw.new_state()
    outcome = fw.find_feasible(state, preemptor, fw.handle.nodes.all())
    assert not outcome.feasible.any()
    return await fw.run_post_filter(state, preemptor, outcome)


def full(*names: str, priority: int = 0) -> Cluster:
    return world(
        [node(name, cpu="2") for name in names],
        [pod(f"on-{name}", cpu="2", node_name=name, priority=priority) for name in names],
    )


def wanting(cluster: Cluster, **fields: Any) -> Pod:
    made = pod("p", **{"cpu": "2", "priority": 5, **fields})
    cluster.store(Pod).apply(made)
    return made


async def told(cluster: Cluster, preemptor: Pod) -> tuple[PostFilterResult | None, str]:
    nomination, status = await preempted(profile(cluster), preemptor)
    assert status.code is Code.UNSCHEDULABLE
    return nomination, status.message


async def test_a_pod_that_must_not_preempt_keeps_its_nomination() -> None:
    cluster = full("n1")
    assert await told(cluster, wanting(cluster, preemptionPolicy="Never")) == (
        None,
        "preemption: not eligible due to preemptionPolicy=Never.",
    )


def terminating(name: str, node_name: str, priority: int = 0, **condition: str) -> Pod:
    conditions = [{"type": "DisruptionTarget", **condition}] if condition else []
    made = pod(name, cpu="2", node_name=node_name, priority=priority, status={"conditions": conditions})
    made.metadata.deletion_timestamp = "2026-03-01T11:00:00Z"
    return made


BY_SCHEDULER: dict[str, Any] = {"status": "True", "reason": "PreemptionByScheduler"}


@pytest.mark.parametrize(
    ("victim", "waits"),
    [
        (terminating("v", "n1", **BY_SCHEDULER), True),
        (terminating("v", "n1", **{**BY_SCHEDULER, "status": "False"}), False),
        (terminating("v", "n1", status="True", reason="EvictionByEvictionAPI"), False),
        (terminating("v", "n1"), False),
        (pod("v", cpu="2", node_name="n1", priority=0), False),
    ],
    ids=["preempted", "condition is false", "evicted otherwise", "deleted", "running"],
)
async def test_a_pod_waits_for_its_terminating_victims(victim: Pod, waits: bool) -> None:
    cluster = world([node("n1", cpu="2")], [victim])
    preemptor = wanting(cluster, status={"nominatedNodeName": "n1"})
    fw = profile(cluster)
    outcome = fw.find_feasible(fw.new_state(), preemptor, fw.handle.nodes.all())
    plugin = next(plugin for plugin in fw.plugins if isinstance(plugin, DefaultPreemption))
    expected = "not eligible due to a terminating pod on the nominated node." if waits else ""
    assert plugin.evaluator.ineligible(preemptor, outcome) == expected


@pytest.mark.parametrize("name", ["x1", "gone"])
async def test_a_pod_does_not_wait_if_its_node_no_longer_helps(name: str) -> None:
    victims = [terminating("v", "x1", **BY_SCHEDULER)]
    cluster = world([node("x1", cpu="2"), node("x2", cpu="2")], victims)
    preemptor = wanting(cluster, status={"nominatedNodeName": name})
    nomination, message = await told(cluster, preemptor)
    assert nomination == CLEARED
    assert message == "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."


async def test_the_message_counts_what_was_tried_and_what_was_not() -> None:
    cluster = full("n1", "n2", "x1", priority=5)
    assert await told(cluster, wanting(cluster)) == (
        CLEARED,
        "preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption "
        "victims found for incoming pod.",
    )


async def test_a_pod_that_prefilter_rejects_is_tried_everywhere_or_nowhere() -> None:
    class Refuses(Plugin, PreFilter):
        name = "Refuses"
        answer = Status.unschedulable("not now")

        def pre_filter(self, state: CycleState, pod: Pod, nodes: Any) -> tuple[None, Status]:
            return None, self.answer

    cluster = full("n1", "n2", priority=5)
    preemptor = wanting(cluster)
    _, status = await preempted(profile(cluster, Refuses), preemptor)
    assert "2 No preemption victims found" in status.message
    Refuses.answer = Status.unresolvable("never")
    _, status = await preempted(profile(cluster, Refuses), preemptor)
    assert "2 Preemption is not helpful" in status.message


async def test_a_deleted_pod_evicts_no_pod() -> None:
    nomination, status = await preempted(profile(full("n1")), pod("p", cpu="2", priority=5))
    assert nomination is None
    assert (status.code, status.message) == (Code.ERROR, 'preemption: pod "p" not found')


async def test_a_reserve_pod_is_handled_by_the_reservation_scheduler() -> None:
    reserve_pod = pod("p", cpu="2", priority=5)
    reserve_pod.metadata.annotations = {"scheduling.koordinator.sh/reserve-pod": "true"}
    assert await preempted(profile(full("n1")), reserve_pod) == (
        None,
        Status(Code.UNSCHEDULABLE, (), "DefaultPreemption"),
    )


@pytest.mark.parametrize(
    ("percentage", "absolute", "nodes", "wanted"),
    [(10, 100, 50, 50), (10, 100, 500, 100), (10, 100, 5000, 500), (100, 0, 7, 7), (0, 1, 9, 1)],
)  # fmt: skip
def test_the_number_of_candidates_to_search(percentage: int, absolute: int, nodes: int, wanted: int) -> None:
    assert Rules(percentage, absolute, latest=lambda pod: pod).candidates_wanted(nodes) == wanted


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"minCandidateNodesPercentage": 101}, "not in valid range [0, 100]"),
        ({"minCandidateNodesAbsolute": -1}, "not in valid range [0, inf)"),
        (
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            "cannot be zero at the same time as minCandidateNodesAbsolute",
        ),
    ],
)
def test_bad_args_are_refused(given: dict[str, int], complaint: str) -> None:
    with pytest.raises(ConfigError, match="minCandidateNodes") as caught:
        profile(world([]), DefaultPreemption=given)
    assert complaint in str(caught.value)
