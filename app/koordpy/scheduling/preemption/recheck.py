"""Verifies victims that kube-scheduler proposes against everything that its own dry run does not see.

kube-scheduler simulates evictions with its in-tree plugins: it does not know what reservations hold, nor
koordpy's other filters. If these still reject the node, the victims would be evicted for nothing. In that
case more pods may have to be evicted: the same dry run with the whole profile finds them. It leaves out pods
that are not bound yet, because kube-scheduler may not know them on the node, and then gives up altogether. A
node on which that does not help either is dropped.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.sandbox import Sandbox
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.plugin_call import Broken
from koordpy.scheduling.interface import Preempt, Victims
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import Code, Status

from .budgets import Budgets
from .dry_run import DryRun
from .importance import priority_of


class Recheck:
    """Checks proposals with whole profiles."""

    def __init__(self, handle: Handle) -> None:
        self._nodes, self._clock = handle.nodes, handle.clock
        self._budgets = handle.cluster.store(PodDisruptionBudget)

    def check(self, framework: Framework, pod: Pod, proposal: Mapping[str, Victims]) -> dict[str, Victims]:
        """Return, by node name, the victims with which a pod fits; nodes where none suffice are omitted."""
        state = framework.new_state()
        before = framework.run_pre_filter(state, pod, self._nodes.all())
        if not (before.status.is_success or _is_reviewed(framework, before.status)):
            return {}
        names = [name for name in proposal if before.node_names is None or name in before.node_names]
        nodes, _ = self._nodes.select(names)
        agreed = {name: proposal[name] for name in _fitting(framework, state, pod, nodes, proposal)}
        rest = nodes.subset(np.array([name not in agreed for name in nodes.names], np.bool_))
        if len(rest):
            mine = priority_of(pod)
            run = DryRun(
                framework,
                state,
                pod,
                lambda victim: priority_of(victim) < mine and not self._nodes.is_assumed(victim.metadata.uid),
                Budgets(self._budgets),
                self._clock.now(),
            )
            agreed.update(run.run(rest, len(rest)).candidates)
        return {name: agreed[name] for name in proposal if name in agreed}


def _is_reviewed(framework: Framework, status: Status) -> bool:
    """Return whether PreFilter's rejection is by a plugin that reviews victims itself.

    With the victims gone it may no longer apply: they may have used the pod's quota, say.
    """
    reviews = (name for name, _ in framework.enabled.at("post_filter", Preempt))
    return status.code is Code.UNSCHEDULABLE and status.plugin in reviews


def _fitting(
    framework: Framework, state: CycleState, pod: Pod, nodes: NodeSet, victims: Mapping[str, Victims]
) -> Iterator[str]:
    """Yield the names of the nodes on which a pod fits once the victims are gone."""
    if framework.entangled(state) and len(nodes) > 1:
        for index in range(len(nodes)):
            yield from _fitting(framework, state, pod, nodes.pick(np.array([index])), victims)
        return
    what_if, sandbox = state.clone(), Sandbox(nodes)
    try:
        for index, name in enumerate(nodes.names):
            sandbox.take(index, victims[name].pods)
            for victim in victims[name].pods:
                framework.remove_pod(what_if, pod, victim, NodeInfo(sandbox.nodes, index))
    except Broken:
        return
    outcome = framework.run_filters(what_if, pod, sandbox.nodes)
    if outcome.error is None:
        yield from outcome.kept.names
    elif len(nodes) > 1:  # an error on one node does not affect the others
        for index in range(len(nodes)):
            yield from _fitting(framework, state, pod, nodes.pick(np.array([index])), victims)
