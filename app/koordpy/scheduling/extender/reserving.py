"""From the node that was chosen for a pod to its placement there: the check of what filter saw, and Reserve.

kube-scheduler filters later pods while binds are in flight, so what Filter saw may be outdated: if the node
has changed since, all filters run on it again before Reserve allocates anything.

If filter answers a single node, all this is done at once, as koord-scheduler does it in its cycle. So the
filter calls of other pods, which kube-scheduler makes before it calls bind, do not find free what the pod
gets. The bind call takes the placement over.
"""

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.cycle.plans import Plans
from koordpy.scheduling.cycle.tentative import Ahead, TentativeReserves
from koordpy.scheduling.interface.cycle_state import SCORED, CycleState
from koordpy.scheduling.interface.status import Status

from .attempts import Attempt, Attempts


class Reserving:
    """Reserves for attempts. Nothing is awaited in a method, so nothing can interleave."""

    def __init__(
        self, cluster: Cluster, attempts: Attempts, plans: Plans, tentative: TentativeReserves
    ) -> None:
        self._nodes, self._pods, self._attempts = cluster.nodes, cluster.store(Pod), attempts
        self._plans, self._tentative = plans, tentative

    def reserve_ahead(self, attempt: Attempt, term: int) -> None:
        """Reserve the only node that filter has answered, in a term of the fence.

        If this fails nothing is reserved, and the bind call reports why.
        """
        pod, kept = self._as_watched(attempt.pod), attempt.kept
        if pod is None or kept is None or self._attempts.get(pod.metadata.uid) is not attempt:
            return
        uid = pod.metadata.uid
        attempt.pod = pod
        [node_name] = kept.names
        scored, size = attempt.state, attempt.size
        if not self.check(attempt, node_name, term).is_success:
            return
        self._tentative.release(uid, "it is reserved anew")
        attempt.shed()
        attempt.is_reserved = True
        placement = Placement(attempt.framework, attempt.state, pod, node_name)
        status = Status.failed("not reserved")
        try:
            status = self.reserve(placement, scored)
        finally:
            if status.is_success:
                self._tentative.hold(Ahead(placement, term), size)
            else:
                placement.roll_back(status.message)
                self._tentative.reserve(attempt.framework, attempt.state, pod, size)

    def _as_watched(self, pod: Pod) -> Pod | None:
        """Return a pod as plugins know it from the watch, which may be ahead of kube-scheduler or behind.

        None if it has ended, or if another one has its name, by which plugins may know it.
        """
        known = self._pods.by_key(pod.metadata.key)
        if known is None:
            return pod
        return None if known.metadata.uid != pod.metadata.uid or known.is_terminal else known

    def take_over(self, attempt: Attempt, node_name: str, term: int) -> Placement | None:
        """Return what was reserved ahead, and stop counting the pod tentatively.

        None if nothing was, or if it is for another node or term, or the Node has changed since.
        """
        ahead = self._tentative.take(attempt.pod.metadata.uid)
        if ahead is None:
            return None
        placement, row = ahead.placement, self._nodes.row_of(node_name)
        if (
            placement.node_name == node_name
            and ahead.term == term
            and placement.framework is attempt.framework
            and row is not None
            and self._nodes.node(row) is not None
            and self._nodes.generation[row] <= attempt.moment[0]
        ):
            return placement
        placement.roll_back("what was reserved ahead is out of date")
        placement.framework.handle.gave_back(placement.pod)
        return None

    def check(self, attempt: Attempt, node_name: str, term: int) -> Status:
        """Run all filters on the chosen node again, unless they saw it in this attempt as it is now.

        In another term of the fence they run in any case.
        """
        pod, framework, state = attempt.pod, attempt.framework, attempt.state
        row = self._nodes.row_of(node_name)
        if row is None or self._nodes.node(row) is None:
            return Status.failed(f'node "{node_name}" is not known to koordpy')
        nodes = NodeSet(self._nodes, [node_name], np.array([row], np.int64))
        if (
            not attempt.has_kept(row)
            or attempt.term != term
            or self._nodes.changed_since(row, attempt.moment)
            or self._nodes.hidden.version != attempt.hidden_version
        ):
            state = attempt.state = framework.new_state()
            self._plans.begin(state, pod, nodes)
            outcome = framework.find_feasible(state, pod, nodes)
            if outcome.error is not None:
                return outcome.error
            if not outcome.prefilter.is_success:
                return outcome.prefilter
            for status, _ in outcome.failed():
                return status
        return framework.run_fit(state, pod, nodes)

    @staticmethod
    def reserve(placement: Placement, scored: CycleState) -> Status:
        """Reserve with what the choice of the node was based on."""
        placement.state.write(SCORED, scored)
        status = placement.reserve()
        placement.state.delete(SCORED)  # a pod that waits keeps no more than it needs
        return status
