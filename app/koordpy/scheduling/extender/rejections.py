"""How rejections are answered: as nodes on which evictions may help, or not."""

from collections.abc import Iterable, Sequence

import numpy as np

from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.status import Code, Status


def not_enqueued(status: Status, nodes: NodeSet) -> FilterOutcome:
    """Return an outcome without nodes for a pod that a PreEnqueue plugin rejects: no eviction would help."""
    if status.is_rejected:
        status = Status.unresolvable(*status.reasons).by(status.plugin)
    error = None if status.is_rejected else status
    return FilterOutcome(nodes, np.zeros(len(nodes), np.bool_), prefilter=status, error=error)


def failures(outcome: FilterOutcome) -> tuple[dict[str, str], dict[str, str]]:
    """Rejected nodes with their messages: where kube-scheduler may help by preemption, and others."""
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    if not (outcome.refusals or outcome.absent) and outcome.prefilter.is_success:
        return failed, unresolvable
    refused: Iterable[tuple[Status, Sequence[str]]] = outcome.failed()
    if not outcome.prefilter.is_success:
        # Whatever pods kube-scheduler evicts from one node, the pod would be rejected again.
        return failed, dict.fromkeys(outcome.nodes.names, outcome.prefilter.message)
    for status, names in refused:
        hopeless = status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        (unresolvable if hopeless else failed).update(dict.fromkeys(names, status.message))
    return failed, unresolvable
