"""Which pods of a quota are evicted for another one of it, with Koordinator's rules and with koordpy's."""

import json
from typing import Any

import numpy as np
import pytest

from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota as Quota
from koordpy.api.scheme import decode, encode
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Job, PlansJobs, Plugin, PreFilter, Victims
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.status import SUCCESS, Code, Status
from koordpy_plugins.scheduling.elasticquota.plugin import ElasticQuota
from koordpy_plugins.scheduling.stock.noderesourcesfit.plugin import NodeResourcesFit
from tests.unit.scheduling.worlds import framework, node, pod, world

NAME = "quota.scheduling.koordinator.sh/name"
PARENT = "quota.scheduling.koordinator.sh/parent"
IS_PARENT = "quota.scheduling.koordinator.sh/is-parent"
PREEMPTIBLE = "quota.scheduling.koordinator.sh/preemptible"


def quota(name: str, cpu: str, *, parent: str = "koordinator-root-quota", is_parent: bool = False) -> Quota:
    labels = {PARENT: parent, IS_PARENT: str(is_parent).lower()}
    amounts = {"cpu": cpu, "memory": "1Ti"}
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels},
        "spec": {"max": amounts, "min": {"cpu": "0", "memory": "0"}},
    }
    return decode(Quota, document)


def of(quota_name: str, name: str, cpu: str, node_name: str = "", **fields: Any) -> Pod:
    labels = fields.pop("labels", {})
    made = pod(name, cpu, node_name=node_name, **fields)
    made.metadata.labels.update({NAME: quota_name, **labels})
    return made


class Stage:
    """Two nodes of eight CPUs, on which a quota of four CPUs is used up by two pods of two."""

    def __init__(self, *more: Pod, limit: str = "4", quotas: tuple[Quota, ...] = (), **args: Any) -> None:
        self.cluster = world([node("n1"), node("n2")])
        self.framework: Framework = framework(
            self.cluster,
            ElasticQuota,
            NodeResourcesFit,
            Together,
            args={"ElasticQuota": {"enableRuntimeQuota": False, **args}},
        )
        for each in quotas or (quota("a", limit),):
            self.cluster.store(Quota).apply(each)
        self.add(of("a", "a1", "2", "n1", priority=1), of("a", "a2", "2", "n2", priority=2), *more)
        plugins = self.framework.plugins
        self.plugin = next(plugin for plugin in plugins if isinstance(plugin, ElasticQuota))

    def add(self, *pods: Pod) -> None:
        for each in pods:
            self.cluster.store(Pod).apply(each)

    def found(self, preemptor: Pod) -> dict[str, list[str]]:
        """The victims by node."""
        self.add(preemptor)
        nodes = self.framework.handle.nodes.all()
        state = self.framework.new_state()
        before = self.framework.run_pre_filter(state, preemptor, nodes)
        assert before.status.code is Code.UNSCHEDULABLE
        outcome = FilterOutcome(nodes, np.zeros(len(nodes), np.bool_), prefilter=before.status)
        findings = self.plugin.preemption.evaluator.find(state, preemptor, outcome)
        self.refused = findings.refused
        return {
            name: [victim.metadata.name for victim in victims.pods]
            for name, victims in findings.candidates.items()
        }

    def has_room(self, preemptor: Pod) -> bool:
        """Whether the pod's quota admits it."""
        self.add(preemptor)
        state, nodes = self.framework.new_state(), self.framework.handle.nodes.all()
        return self.framework.run_pre_filter(state, preemptor, nodes).status.is_success

    def bind(self, preemptor: Pod, node_name: str) -> None:
        bound = decode(Pod, json.loads(encode(preemptor)))
        bound.spec.node_name = node_name
        self.add(bound)

    def evict(self, name: str) -> Pod:
        """Delete a pod, which is gone at once."""
        gone = self.cluster.store(Pod).get("default", name)
        assert gone is not None
        self.cluster.store(Pod).discard(f"default/{name}")
        return gone

    def again(self, gone: Pod) -> Pod:
        """The pod that a controller makes in place of one that is gone."""
        made = decode(Pod, json.loads(encode(gone)))
        made.metadata.name, made.metadata.uid = f"{gone.metadata.name}x", f"{gone.metadata.uid}x"
        made.spec.node_name = ""
        return made

    def reviewed(self, preemptor: Pod, **victims: list[str]) -> list[str]:
        """The nodes on which a proposal of kube-scheduler is accepted."""
        self.add(preemptor)
        pods = {each.metadata.name: each for each in self.cluster.store(Pod)}
        proposal = {name: Victims([pods[each] for each in names]) for name, names in victims.items()}
        return list(self.plugin.preempt(self.framework.new_state(), preemptor, proposal))


class Together(Plugin, PreFilter, PlansJobs):
    """Places pods without a node whose names begin with `gang` together."""

    name = "Together"

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        return None, SUCCESS

    def job_of(self, pod: Pod) -> Job | None:
        pods = [each for each in self.handle.cluster.store(Pod) if each.metadata.name.startswith("gang")]
        return Job("gang", tuple(pods), lambda placed: len(placed) == len(pods), 60.0) if pods else None


EXACT: dict[str, Any] = {"preemptionFitsQuota": True}


@pytest.mark.parametrize("args", [{}, EXACT])
def test_only_less_important_preemptible_pods_of_the_same_quota_are_victims(args: dict[str, Any]) -> None:
    stage = Stage(
        of("b", "b1", "1", "n1", priority=0),
        of("a", "kept", "0", "n1", priority=0, labels={PREEMPTIBLE: "false"}),
        **args,
    )
    assert stage.found(of("a", "new", "1", priority=2)) == {"n1": ["a1"]}


def test_by_default_all_are_evicted_even_if_the_quota_stays_exceeded() -> None:
    """Koordinator's behaviour: whether the quota fits in the end is not looked at."""
    stage = Stage()
    assert stage.found(of("a", "new", "3", priority=5)) == {"n1": ["a1"], "n2": ["a2"]}
    assert Stage(**EXACT).found(of("a", "new", "3", priority=5)) == {}


@pytest.mark.parametrize(("cpu", "victims"), [("1", {"n1": ["a1"], "n2": ["a2"]}), ("2", {})])
def test_nobody_is_evicted_for_one_of_several_pods_that_exceed_the_quota_together(
    cpu: str, victims: dict[str, list[str]]
) -> None:
    stage = Stage(of("a", "gang-1", cpu), **EXACT)
    assert stage.found(of("a", "gang-0", cpu, priority=5)) == victims
    by_default = Stage(of("a", "gang-1", cpu))
    assert by_default.found(of("a", "gang-0", cpu, priority=5)) == {"n1": ["a1"], "n2": ["a2"]}


@pytest.mark.parametrize(("cpu", "victims"), [("3", {"n1": ["a1"], "n2": ["a2"]}), ("4", {})])
def test_nobody_is_evicted_for_a_pod_if_another_one_placed_with_it_exceeds_its_own_quota(
    cpu: str, victims: dict[str, list[str]]
) -> None:
    quotas = (quota("a", "4"), quota("b", "4"))
    stage = Stage(of("b", "b1", "1", "n1"), of("b", "gang-1", cpu), quotas=quotas, **EXACT)
    assert stage.found(of("a", "gang-0", "1", priority=5)) == victims


def test_a_victim_that_fits_neither_the_node_nor_the_quota_is_no_error_if_the_quota_has_to_fit() -> None:
    """Koordinator removes it twice, which is an error for the node."""
    full = of("other", "full", "4", "n1", priority=9)
    by_default = Stage(full)
    assert by_default.found(of("a", "new", "4", priority=5)) == {"n2": ["a2"]}
    assert by_default.refused["n1"].message == "no corresponding pod default/a1 in pods of node n1"
    exact = Stage(full, **EXACT)
    assert exact.found(of("a", "new", "4", priority=5)) == {}
    assert {status.code for status in exact.refused.values()} == {Code.UNSCHEDULABLE_AND_UNRESOLVABLE}


def test_ancestors_count_where_they_are_checked() -> None:
    tree = (quota("top", "4", is_parent=True), quota("a", "4", parent="top"), quota("b", "4", parent="top"))
    more = of("b", "b1", "1", "n2", priority=1)
    checked: dict[str, Any] = {"enableCheckParentQuota": True, **EXACT}
    assert Stage(more, quotas=tree, **EXACT).found(of("a", "new", "2", priority=5)) != {}
    assert Stage(more, quotas=tree, **checked).found(of("a", "new", "2", priority=5)) == {}


def test_ancestors_that_are_below_themselves_are_walked_once() -> None:
    circle = (
        quota("top", "9", parent="mid", is_parent=True),
        quota("mid", "9", parent="top", is_parent=True),
        quota("a", "4", parent="mid"),
    )
    stage = Stage(quotas=circle, enableCheckParentQuota=True, **EXACT)
    assert stage.found(of("a", "new", "2", priority=5)) != {}


def test_pods_that_terminate_anyway_make_room_first() -> None:
    leaving = of("a", "leaving", "0", "n1", priority=4)
    stage = Stage(leaving, **EXACT)
    going = of("a", "a1", "2", "n1", priority=1)
    going.metadata.deletion_timestamp = "2026-03-01T12:00:00Z"
    stage.add(going, of("a", "a0", "0", "n1", priority=0))
    assert stage.found(of("a", "new", "2", priority=5))["n1"] == ["a1"]


def test_a_proposal_of_kube_scheduler_is_accepted_only_if_the_quota_has_room_then() -> None:
    stage = Stage(of("other", "other", "1", "n1", priority=0))
    new = of("a", "new", "2", priority=5)
    assert stage.reviewed(new, n1=["other"], n2=["a2"]) == ["n2"]
    assert stage.reviewed(of("a", "large", "3", priority=5), n1=["a1"], n2=["a2"]) == []
    assert stage.reviewed(of("b", "free", "1", priority=5), n1=["other"]) == ["n1"]


async def test_a_pod_with_the_policy_never_evicts_nobody() -> None:
    stage = Stage()
    new = of("a", "new", "1", priority=5, preemptionPolicy="Never")
    stage.add(new)
    nodes = stage.framework.handle.nodes.all()
    state = stage.framework.new_state()
    before = stage.framework.run_pre_filter(state, new, nodes)
    outcome = FilterOutcome(nodes, np.zeros(len(nodes), np.bool_), prefilter=before.status)
    result, status = await stage.plugin.post_filter(state, new, outcome)
    assert (result, status.message) == (None, "preemption: not eligible due to preemptionPolicy=Never.")
