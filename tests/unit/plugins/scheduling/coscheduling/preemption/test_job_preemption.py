"""Which pods a job evicts, and what happens if evictions fail, take their time, or the process restarts."""

from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import Plugin, PreFilter
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import Code, Status
from koordpy_plugins.scheduling.coscheduling.preemption.job_preemption import Options

from .stage import JOINT, Stage

WAITS = "not eligible due to terminating pod on the nominated node."


# --- which nodes and victims -------------------------------------------------------------------------


async def test_by_default_members_are_not_checked_together() -> None:
    """Koordinator's behaviour: both members go to one node that holds one of them."""
    stage = Stage(2)
    stage.add_gang(2)
    result, status = await stage.preempt()
    assert status.is_success
    assert result is not None
    assert stage.nominations() == {"g1": "n1", "g2": "n1"}
    assert stage.api.deleted == ["low-n1"]


async def test_with_a_joint_check_each_member_gets_room() -> None:
    stage = Stage(3, options=JOINT)
    stage.add_gang(2)
    result, status = await stage.preempt()
    assert status.is_success
    assert result is not None
    assert result.nominated_node_name == "n1"
    assert stage.nominations() == {"g1": "n1", "g2": "n2"}
    assert sorted(stage.api.deleted) == ["low-n1", "low-n2"]


async def test_a_job_may_be_checked_together_whatever_the_options_are() -> None:
    """In Koordinator nobody else is evicted, and the members are nominated to the same node for ever."""
    stage = Stage(2)
    stage.add_gang(2)
    await stage.preempt()
    assert stage.api.deleted == ["low-n1"]
    stage.remove("low-n1")
    await stage.preempt()
    assert stage.nominations() == {"g1": "n1", "g2": "n1"}
    assert stage.api.deleted == ["low-n1"]
    _, status = await stage.preempt(is_joint=True)
    assert status.is_success
    assert stage.nominations() == {"g1": "n1", "g2": "n2"}
    assert stage.api.deleted == ["low-n1", "low-n2"]


async def test_with_a_joint_check_nothing_is_evicted_for_members_that_do_not_fit_together() -> None:
    stage = Stage(2, options=JOINT)
    stage.add_gang(3)
    result, status = await stage.preempt()
    assert status.code is Code.UNSCHEDULABLE
    assert status.message == "0/2 nodes are available: 2 Insufficient cpu."
    assert result is not None
    assert (result.nominated_node_name, result.override) == ("", True)
    assert stage.api.deleted == []
    assert [pod.metadata.name for pod in stage.found.unplaced] == ["g3"]


async def test_with_a_joint_check_free_nodes_are_used_before_anybody_is_evicted() -> None:
    stage = Stage(3, options=JOINT)
    stage.remove("low-n2")
    stage.add_gang(2)
    await stage.preempt()
    assert stage.nominations() == {"g1": "n2", "g2": "n1"}
    assert stage.api.deleted == ["low-n1"]


async def test_only_the_pods_that_are_in_the_way_are_evicted() -> None:
    stage = Stage(1, cpu="4", used="1", options=JOINT)
    stage.add("higher", "1", node_name="n1", priority=5)
    stage.add("lowest", "1", node_name="n1", priority=0)
    stage.add_gang(2, "1")
    await stage.preempt()
    assert stage.api.deleted == ["lowest"]


async def test_every_member_counts_with_its_own_requests() -> None:
    stage = Stage(2, cpu="4", used="4", options=JOINT)
    stage.add_gang(1, "1")
    stage.add("large", "4", priority=10)
    stage.members.append("large")
    await stage.preempt()
    assert stage.nominations() == {"g1": "n1", "large": "n2"}


async def test_protected_and_more_important_pods_stay() -> None:
    stage = Stage(3, options=JOINT)
    for name, labels in (
        ("low-n1", {"scheduling.koordinator.sh/disable-preemptible": "true"}),
        ("low-n2", {"quota.scheduling.koordinator.sh/preemptible": "false"}),
    ):
        stage.change(name, lambda document, labels=labels: document["metadata"].update(labels=labels))
    stage.add_gang(1)
    await stage.preempt()
    assert stage.api.deleted == ["low-n3"]
    stage = Stage(1, options=JOINT)
    stage.add_gang(1, priority=1)
    _, status = await stage.preempt()
    assert status.code is Code.UNSCHEDULABLE
    assert stage.api.deleted == []


async def test_pods_whose_budget_allows_no_disruption_go_last_where_budgets_count() -> None:
    async def evicted(options: Options) -> list[str]:
        stage = Stage(2, options=options)
        stage.change("low-n1", lambda document: document["metadata"].update(labels={"app": "kept"}))
        stage.add_budget({"app": "kept"})
        stage.add_gang(1)
        await stage.preempt()
        return stage.api.deleted

    assert await evicted(JOINT) == ["low-n1"]
    assert await evicted(Options(joint_fit=True, considers_pdbs=True)) == ["low-n2"]


class OverQuota(Plugin, PreFilter):
    """Rejects large pods, whatever the node."""

    name = "OverQuota"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        if pod.metadata.name.startswith("large"):
            return None, Status.unschedulable("over quota")
        return None, Status.skip()


async def test_with_a_joint_check_nothing_is_evicted_for_a_member_that_is_rejected_everywhere() -> None:
    async def deleted(options: Options | None) -> list[str]:
        stage = Stage(2, cpu="4", used="4", options=options, plugins=[OverQuota])
        stage.add_gang(1, "1")
        stage.add("large", "4", priority=10)
        stage.members.append("large")
        await stage.preempt()
        return stage.api.deleted

    assert await deleted(None) != []
    assert await deleted(JOINT) == []


async def test_pods_that_terminate_anyway_make_room_first() -> None:
    stage = Stage(1, cpu="2", used="1", options=JOINT)
    stage.add("leaving", "1", node_name="n1", priority=5)
    stage.show_deletion("leaving")
    stage.add_gang(1, "1")
    _, status = await stage.preempt()
    assert status.is_success
    assert stage.api.deleted == []
    assert [pod.metadata.name for pod in stage.found.victims["n1"]] == ["leaving"]


async def test_pods_that_are_about_to_be_bound_are_spared() -> None:
    async def victims(options: Options | None) -> list[str]:
        stage = Stage(1, options=options)
        stage.remove("low-n1")
        stage.cluster.nodes.assume(stage.add("binding", priority=1), "n1")
        stage.add_gang(1)
        await stage.preempt()
        return stage.api.deleted

    assert await victims(None) == ["binding"]
    assert await victims(JOINT) == []


async def test_a_pod_with_the_policy_never_evicts_nobody_and_keeps_its_nomination() -> None:
    stage = Stage(1, options=JOINT)
    stage.add_gang(1, preemptionPolicy="Never", status={"nominatedNodeName": "n1"})
    result, status = await stage.preempt()
    assert (result, status.message) == (None, "not eligible due to preemptionPolicy=Never.")
    assert stage.api.deleted == []
    assert stage.nominations() == {"g1": "n1"}


# --- once, and not again -----------------------------------------------------------------------------


@pytest.mark.parametrize("shows_deletions", [True, False])
async def test_while_victims_terminate_nobody_else_is_evicted(shows_deletions: bool) -> None:
    """Also while the watch has not shown their deletion."""
    stage = Stage(4, options=JOINT)
    stage.api.shows_deletions = shows_deletions
    stage.add_gang(2)
    await stage.preempt()
    assert len(stage.api.deleted) == 2
    for trigger in ("g1", "g2"):
        result, status = await stage.preempt(trigger)
        assert (result, status.message) == (None, WAITS)
    assert len(stage.api.deleted) == 2


async def test_once_the_victims_are_gone_the_job_may_preempt_again() -> None:
    stage = Stage(1, options=JOINT)
    stage.add_gang(1)
    await stage.preempt()
    stage.remove("low-n1")
    stage.add("thief", node_name="n1", priority=1)
    _, status = await stage.preempt()
    assert status.is_success
    assert stage.api.deleted == ["low-n1", "thief"]


async def test_after_a_restart_the_job_waits_for_the_victims_that_it_has_evicted() -> None:
    stage = Stage(4, options=JOINT)
    stage.add_gang(2)
    await stage.preempt()
    stage.restart()
    result, status = await stage.preempt()
    assert (result, status.message) == (None, WAITS)
    assert len(stage.api.deleted) == 2


async def test_if_nothing_can_be_evicted_the_members_get_their_nominations_back() -> None:
    stage = Stage(2, options=JOINT)
    stage.api.failing = {"low-n1", "low-n2"}
    stage.add_gang(2)
    result, status = await stage.preempt()
    assert (result, status.code) == (None, Code.ERROR)
    assert stage.found.reason == "prepare candidates error"
    assert stage.nominations() == {}
    assert [stage.handle.nominator.node_of(f"uid-g{number}") for number in (1, 2)] == ["", ""]


async def test_evictions_that_failed_half_way_are_finished_by_a_later_attempt() -> None:
    stage = Stage(4, options=JOINT)
    stage.api.failing = {"low-n2"}
    stage.add_gang(2)
    result, status = await stage.preempt()
    assert (result, status.code) == (None, Code.ERROR)
    assert stage.api.deleted == ["low-n1"]
    assert stage.nominations() == {"g1": "n1", "g2": "n2"}
    stage.api.failing = set()
    for _ in range(2):
        assert (await stage.preempt())[1].message == WAITS
    stage.remove("low-n1")
    _, status = await stage.preempt()
    assert status.is_success
    assert stage.api.deleted == ["low-n1", "low-n2"]


async def test_a_nomination_that_cannot_be_written_does_not_let_the_job_evict_more() -> None:
    stage = Stage(4, options=JOINT)
    stage.api.failing_nominations = {"g1", "g2"}
    stage.add_gang(2)
    _, status = await stage.preempt()
    assert status.is_success
    assert sorted(stage.found.nominations_failed) == ["default/g1", "default/g2"]
    assert (await stage.preempt())[1].message == WAITS
    assert len(stage.api.deleted) == 2


async def test_in_one_round_preemption_is_tried_once() -> None:
    stage = Stage(1)
    stage.add_gang(1, preemptionPolicy="Never")
    await stage.preempt()
    current: Any = stage.found.preemptor.round
    assert current.preemption_message == (
        "preemption already attempted by default/g1 with message not eligible due to preemptionPolicy=Never."
    )
