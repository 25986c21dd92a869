"""Which scheduler chooses the node: kube-scheduler among all that fit, or koordpy, which returns only one.

The extender protocol leaves the choice to kube-scheduler: it scores every node that filter kept with its own
plugins, requests koordpy's scores with a second call, and adds them up. But koordpy can compute the same sum:
the whole framework of a profile scores with kube-scheduler's arithmetic. If filter returns only the best
node, kube-scheduler scores nothing and makes no further call: that saves one call and the scoring of some
hundred nodes for every pod, on which it spends most of its time.

The cost: the weights and arguments of in-tree Score plugins come from koordpy's own configuration, and a
filter extender after koordpy can only accept the node or reject the pod.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.sandbox import Sandbox
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import Scores
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.scheduling.toolkit import workload_selectors

from .attempts import Attempt

log = logging.getLogger(__name__)

PRESUMED_SECONDS = 3.0
"""How long a pod counts on the node chosen for it, unless it is seen on a node earlier."""

MOST_PRESUMED = 50
"""The most pods between the choice of a node and its bind call; kube-scheduler has a handful at a time."""


@dataclass(frozen=True, slots=True)
class _Presumed:
    number: int
    pod: Pod
    node_name: str
    since: float
    withdrawn: Callable[[], None] | None = None
    """Called if the pod is not going there."""


class Chooser:
    """Chooses nodes as kube-scheduler would: the highest total, any of them if equal.

    Like kube-scheduler it counts pods on the nodes chosen for them before they are bound, so that a burst of
    pods does not go to a single node.
    """

    def __init__(self, profiles: Profiles, handle: Handle) -> None:
        self._profiles, self._rng, self._clock = profiles, handle.rng, handle.clock
        self._presumed: dict[str, _Presumed] = {}
        self._nodes = handle.nodes
        self.promises = 0
        """How many pods have been promised a node so far."""
        workload_selectors.follow(handle.cluster)

    def weights(self, scheduler_name: str) -> dict[str, int]:
        """Return the weights of all Score plugins of a profile, kube-scheduler's own included."""
        whole = self._profiles.whole_of(scheduler_name)
        return {} if whole is None else whole.weights

    def choose(self, attempt: Attempt, nodes: NodeSet) -> tuple[int, Scores] | None:
        """Return the position of the best node, and all scores; None to leave the choice to kube-scheduler.

        That is the case if kube-scheduler has Score plugins that koordpy lacks, or if scoring fails: it is
        better to place the pod without koordpy's scores than not at all.
        """
        pod = attempt.pod
        whole = self._profiles.whole_of(pod.spec.scheduler_name)
        if whole is None or not self.can_choose(whole, pod):
            return None
        scores = self.score(whole, attempt.state, pod, nodes)
        if scores is None:
            return None
        best = (scores.total == scores.total.max()).nonzero()[0]
        chosen = int(best[self._rng.randrange(len(best))])
        self.promise(pod, nodes.names[chosen])
        return chosen, scores

    def can_choose(self, whole: Framework, pod: Pod) -> bool:
        """Return whether a profile's scores of nodes for a pod are complete."""
        return bool(whole.scores) and not needs_kube_scheduler(pod)

    def score(self, whole: Framework, state: CycleState, pod: Pod, nodes: NodeSet) -> Scores | None:
        """Score nodes with the pods that were promised to them; None, and a warning, if that fails."""
        scores, status = whole.run_score(state, pod, self._with_presumed(nodes))
        state.skip_score.clear()
        if scores is None:
            log.warning(
                "pod %s: no scores, kube-scheduler chooses its node: %s", pod.metadata.key, status.message
            )
        return scores

    def withdraw(self, pod: Pod) -> None:
        """Stop counting a pod: it is retried, or gone. The node is as good for others as before."""
        presumed = self._presumed.pop(pod.metadata.uid, None)
        if presumed is not None and presumed.withdrawn is not None:
            presumed.withdrawn()

    def promise(self, pod: Pod, node_name: str, withdrawn: Callable[[], None] | None = None) -> None:
        """Count a pod on a node from now on; `withdrawn` is called if it turns out not to go there."""
        self.withdraw(pod)  # the latest promise comes last
        if len(self._presumed) >= MOST_PRESUMED:
            del self._presumed[next(iter(self._presumed))]
        self.promises += 1
        presumed = _Presumed(self.promises, pod, node_name, self._clock.monotonic(), withdrawn)
        self._presumed[pod.metadata.uid] = presumed

    def promised_since(self, promises: int) -> list[str]:
        """Return the nodes of the promises after the first `promises` whose pods are not there yet."""
        self._prune()
        return [presumed.node_name for presumed in self._presumed.values() if presumed.number > promises]

    def _with_presumed(self, nodes: NodeSet) -> NodeSet:
        """Return the nodes with the pods that were promised to them and are not counted there yet."""
        self._prune()
        table = nodes.table
        sandbox: Sandbox | None = None
        for presumed in self._presumed.values():
            for index in (nodes.rows == table.row_of(presumed.node_name)).nonzero()[0].tolist():
                sandbox = sandbox or Sandbox(nodes)
                sandbox.put(index, presumed.pod)
        return nodes if sandbox is None else sandbox.nodes

    def _prune(self) -> None:
        """Forget promises that have been kept, or are too old."""
        latest = self._clock.monotonic() - PRESUMED_SECONDS
        for uid, presumed in list(self._presumed.items()):
            if presumed.since < latest or self._nodes.placed_on(uid) is not None:
                del self._presumed[uid]


def needs_kube_scheduler(pod: Pod) -> bool:
    """Return whether VolumeBinding or DynamicResources of kube-scheduler have a part in placing a pod."""
    spec = pod.spec
    return bool(spec.resource_claims) or any(v.persistent_volume_claim is not None for v in spec.volumes)
