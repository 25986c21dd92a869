"""What is answered where a pod cannot be scheduled: as nodes on which evictions may help, or not."""

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.lib.cut import cut
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.preemption.executor import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER
from koordpy.scheduling.preemption.importance import priority_of
from koordpy.scheduling.toolkit.topology_manager.policy import UNALIGNED, UNSATISFIED

NO_AFFINITY: Final = "node(s) NUMA Topology affinity error"
"""Reasons of the topology manager name hints only: what they are about goes in front of them, in the words of
Koordinator's end-to-end tests (`test/e2e/scheduling/nodenumaresource.go`).
"""

_LONGEST, _MOST_ALIGNED = 512, 64
"""The characters of such a reason, and how many of them are given.

Eight NUMA nodes have 255 hints, which differ from node to node. kube-scheduler writes all different reasons
to the pod's condition, where a text of more than a megabyte is too large to be stored.
"""


def unsynced(cluster: Cluster) -> str:
    """Return why no call can be answered yet: what has not been listed; empty if nothing is missing."""
    if cluster.synced:
        return ""
    waiting = [store.type.__name__ for store in cluster.stores if not store.synced]
    return f"koordpy cannot schedule yet, not listed so far: {', '.join(waiting)}"


def not_enqueued(status: Status, nodes: NodeSet) -> FilterOutcome:
    """Return an outcome without nodes for a pod that a PreEnqueue plugin rejects: no eviction would help."""
    if status.is_rejected:
        status = Status.unresolvable(*status.reasons).by(status.plugin)
    error = None if status.is_rejected else status
    return FilterOutcome(nodes, np.zeros(len(nodes), np.bool_), prefilter=status, error=error)


def failures(outcome: FilterOutcome, awaited: str = "") -> tuple[dict[str, str], dict[str, str]]:
    """Rejected nodes with their messages: where kube-scheduler may help by preemption, and others.

    Reasons that list hints are cut, and the same for all nodes after some. `awaited` is the node on which
    victims of the pod terminate (`node_awaited`), empty if there is none.
    """
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    if not (outcome.refusals or outcome.absent) and outcome.prefilter.is_success:
        return failed, unresolvable
    refused: Iterable[tuple[Status, Sequence[str]]] = outcome.failed()
    if not outcome.prefilter.is_success:
        # Whatever pods kube-scheduler evicts from one node, the pod would be rejected again.
        unresolvable = dict.fromkeys(outcome.nodes.names, cut(outcome.prefilter.message))
        if awaited in unresolvable:
            failed[awaited] = unresolvable.pop(awaited)
        return failed, unresolvable
    aligned = 0
    for status, names in refused:
        hopeless = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        message = status.message
        if message.startswith((UNALIGNED, UNSATISFIED)):
            message = cut(f"{NO_AFFINITY}: {message}", _LONGEST) if aligned < _MOST_ALIGNED else NO_AFFINITY
            aligned += 1
        (unresolvable if hopeless else failed).update(dict.fromkeys(names, message))
    return failed, unresolvable


def node_awaited(pod: Pod, nodes: NodeTable) -> str:
    """Return the node that a pod is nominated to, if pods that were preempted terminate there; else "".

    kube-scheduler clears the nomination of a pod that fits nowhere, and then tries all pods up to its
    priority again at once, this one too. It keeps the nomination only while it sees such a victim on the
    nominated node, and only if evictions may help there.

    Source: Kubernetes, `PodEligibleToPreemptOthers` of the plugin DefaultPreemption.
    """
    name = pod.status.nominated_node_name
    row = nodes.row_of(name) if name else None
    if row is None:
        return ""
    priority = priority_of(pod)
    terminating = (
        other
        for other in nodes.pods_on(row)
        if other.metadata.deletion_timestamp is not None and priority_of(other) < priority
    )
    return name if any(map(_was_preempted, terminating)) else ""


def _was_preempted(pod: Pod) -> bool:
    return any(
        condition.type == DISRUPTION_TARGET
        and condition.status == "True"
        and condition.reason == PREEMPTION_BY_SCHEDULER
        for condition in pod.status.conditions
    )
