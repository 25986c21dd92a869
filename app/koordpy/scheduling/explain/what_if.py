"""Where would these pods go? Whole scheduling cycles, one pod after the other, that change nothing.

A cycle runs the whole profile (`Profiles.whole_of`), including kube-scheduler's own plugins, on the current
cluster. A pod that finds a node is put there in an overlay that only the next cycles of the same what-if see:
nothing is assumed, reserved, written or remembered.

Among several best nodes the first is taken; kube-scheduler picks one at random.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.output_model import OutputModel
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.sandbox import Sandbox
from koordpy.lib.counting import counted
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.plugin_call import Broken
from koordpy.scheduling.interface.cycle_state import PLACED, CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import FilterOutcome, Scores
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.preemption.dry_run import Findings
from koordpy.scheduling.preemption.suggestions import Eviction, best_eviction, find_evictions

from .explained import Best, NodeScore, Rejection, rejected, rejections

MOST_PODS = 1000
"""Pods of one what-if."""

LONGEST = 30.0
"""The time limit of one what-if, in seconds."""

TOP_NODES = 3
EXAMPLES = 3


class PlacedPod(OutputModel):
    """A pod that would find a node, with its scores and the rejections of other nodes."""

    pod: str
    node: str
    total: int
    feasible_nodes: int
    evaluated_nodes: int
    top_nodes: list[NodeScore]
    rejections: list[Rejection]


class Stop(OutputModel):
    """Why a pod and all those after it would find no node.

    `stage` is where it happens: `PreEnqueue`, `PreFilter`, `Filter`, `Score`, or `limit` if the what-if
    reached its own limit. `preemption_might_help` counts nodes whose rejection preemption might resolve;
    `eviction` is the best one that would let it fit, among the nodes evaluated.
    """

    pod: str
    pods: int
    stage: str
    message: str
    rejections: list[Rejection]
    preemption_might_help: int
    eviction: Eviction | None = None


class Forecast(OutputModel):
    """Where pods would go, and what stops the rest."""

    profile: str
    pods: int
    nodes: int
    weights: dict[str, int]
    placed: list[PlacedPod]
    by_node: dict[str, int]
    stopped: Stop | None


@dataclass(slots=True)
class Trial:
    """The result of one cycle: a node, or a status that says why there is none."""

    status: Status
    stage: str = ""
    outcome: FilterOutcome | None = None
    best: Best | None = None
    state: CycleState | None = None
    scores: Scores | None = None
    """The scores of all feasible nodes; its nodes are those that the cycle saw."""

    @property
    def node(self) -> str:
        """The name of the best node, empty if there is none."""
        return self.best.names[0] if self.best is not None else ""

    @property
    def message(self) -> str:
        """Why there is no node."""
        status = self.status
        return f"{status.plugin}: {status.message}" if status.plugin else status.message


@dataclass(slots=True)
class Rehearsal:
    """The cycles of one what-if, and the pods that they have placed so far, by node name.

    `removed` are pods that the cycles do not see, by UID. They leave as in a preemption's dry run: PreFilter
    sees them, then its plugins' RemovePod is called for each. The nodes of `without` are not in the cluster,
    nor are their pods.
    """

    framework: Framework
    cluster: Cluster
    placed: dict[str, list[Pod]] = field(default_factory=dict)
    removed: dict[str, Pod] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    _seen: tuple[tuple[int, int], NodeSet] | None = None

    @property
    def nodes(self) -> NodeSet:
        """All nodes, with the pods that were placed on them."""
        table = self.cluster.nodes
        moment = table.moment
        if self._seen is None or self._seen[0] != moment:
            nodes = table.all()
            if self.without:
                nodes = nodes.subset(
                    np.fromiter((name not in self.without for name in nodes.names), np.bool_, len(nodes))
                )
            self._seen = moment, nodes.with_pods(self.placed) if self.placed else nodes
        return self._seen[1]

    def try_pod(self, pod: Pod, top: int = TOP_NODES) -> Trial:
        """Run one cycle up to the choice of a node."""
        framework = self.framework
        status = framework.run_pre_enqueue(pod)
        if not status.is_success:
            return Trial(status, "PreEnqueue")
        state = framework.new_state()
        state.measured = False
        state.write(PLACED, self.placed)
        outcome = self._find_feasible(state, pod)
        if outcome.error is not None:
            return Trial(outcome.error, "Filter", outcome)
        if not outcome.prefilter.is_success:
            return Trial(outcome.prefilter, "PreFilter", outcome)
        kept = outcome.kept
        if not len(kept):
            more = framework.explain_failure(state, pod, outcome)
            message = outcome.message(", ".join(more))
            return Trial(Status(Code.UNSCHEDULABLE, (message,)), "Filter", outcome, state=state)
        scores, status = framework.run_score(state, pod, kept)
        if scores is None:
            return Trial(status, "Score", outcome)
        return Trial(status, "", outcome, Best.of(scores, max(top, 1)), scores=scores)

    def _find_feasible(self, state: CycleState, pod: Pod) -> FilterOutcome:
        """Find the feasible nodes without the removed pods."""
        framework, nodes = self.framework, self.nodes
        gone = self._leaving(nodes)
        if not gone:
            return framework.find_feasible(state, pod, nodes)
        allowed = framework.run_pre_filter(state, pod, nodes)
        if not allowed.status.is_success:
            error = None if allowed.status.is_rejected else allowed.status
            none = np.zeros(len(nodes), np.bool_)
            return FilterOutcome(nodes, none, prefilter=allowed.status, error=error)
        sandbox = Sandbox(nodes)
        try:
            for index, pods in gone.items():
                sandbox.take(index, pods)
                for victim in pods:
                    framework.remove_pod(state, pod, victim, NodeInfo(sandbox.nodes, index))
        except Broken as broken:
            return FilterOutcome(nodes, np.zeros(len(nodes), np.bool_), error=broken.status)
        if allowed.node_names is None:
            return framework.run_filters(state, pod, sandbox.nodes)
        left = np.fromiter((name in allowed.node_names for name in nodes.names), np.bool_, len(nodes))
        outcome = framework.run_filters(state, pod, sandbox.nodes.subset(left))
        outcome.absent = [nodes.names[i] for i in np.flatnonzero(~left).tolist()]
        outcome.absent_status = allowed.absent_status
        return outcome

    def _leaving(self, nodes: NodeSet) -> dict[int, list[Pod]]:
        """Return the removed pods that still occupy a node, by the node's index."""
        table = self.cluster.nodes
        rows: dict[int, list[Pod]] = {}
        for uid, pod in self.removed.items():
            name = table.placed_on(uid)
            row = None if name is None else table.row_of(name)
            if row is not None:
                rows.setdefault(row, []).append(pod)
        if not rows:
            return {}
        at = np.flatnonzero(np.isin(nodes.rows, list(rows)))
        return {index: rows[int(nodes.rows[index])] for index in at.tolist()}

    def remove(self, pod: Pod) -> None:
        """Remove a pod from its node in the view of the next cycles."""
        self.removed[pod.metadata.uid] = pod

    def restore(self, pod: Pod) -> None:
        """Undo `remove`."""
        self.removed.pop(pod.metadata.uid, None)

    def take_back(self, pod: Pod, node_name: str) -> None:
        """Undo `place`."""
        uid = pod.metadata.uid
        left = [each for each in self.placed.get(node_name, ()) if each.metadata.uid != uid]
        if left:
            self.placed[node_name] = left
        else:
            self.placed.pop(node_name, None)
        self._seen = None

    def find_evictions(self, pod: Pod, trial: Trial) -> Findings:
        """Search for evictions that would let a pod fit that found no node."""
        if trial.outcome is None or trial.state is None:
            return Findings()
        return find_evictions(self.framework, self.cluster, trial.state, pod, trial.outcome)

    def place(self, pod: Pod, node_name: str) -> None:
        """Place a pod on a node in the view of the next cycles."""
        self.placed.setdefault(node_name, []).append(pod)
        if self._seen is not None:
            moment, nodes = self._seen
            self._seen = moment, nodes.with_pods({node_name: [pod]})


async def forecast(
    framework: Framework, cluster: Cluster, pods: Sequence[Pod], *, top: int = TOP_NODES
) -> Forecast:
    """Try pods one after the other until one finds no node.

    All of them are assumed to be identical: what stops one stops those after it. Control returns to the event
    loop between two pods, so that other work waits no longer than one cycle.
    """
    rehearsal, clock = Rehearsal(framework, cluster), cluster.clock
    placed: list[PlacedPod] = []
    stopped: Stop | None = None
    until = clock.monotonic() + LONGEST
    for index, pod in enumerate(pods):
        name, left = pod.metadata.name, len(pods) - index
        if clock.monotonic() >= until:
            message = f"placed {counted(index, 'pod')} in {LONGEST:g} s, the time limit of a what-if"
            stopped = Stop(
                pod=name, pods=left, stage="limit", message=message, rejections=[], preemption_might_help=0
            )
            break
        trial = rehearsal.try_pod(pod, top)
        if trial.outcome is None or trial.best is None:
            stopped = _stop(name, left, trial)
            stopped.eviction = best_eviction(rehearsal.find_evictions(pod, trial), cluster)
            break
        rehearsal.place(pod, trial.node)
        placed.append(_placed(name, trial, trial.outcome, trial.best))
        await asyncio.sleep(0)
    return Forecast(
        profile=framework.profile_name,
        pods=len(pods),
        nodes=len(cluster.nodes),
        weights=framework.weights,
        placed=placed,
        by_node=dict(Counter(item.node for item in placed).most_common()),
        stopped=stopped,
    )


def _placed(name: str, trial: Trial, outcome: FilterOutcome, best: Best) -> PlacedPod:
    return PlacedPod(
        pod=name,
        node=trial.node,
        total=best.totals[0],
        feasible_nodes=int(outcome.feasible.sum()),
        evaluated_nodes=len(outcome.nodes),
        top_nodes=best.models(),
        rejections=rejections(list(rejected(outcome, EXAMPLES))),
    )


def _stop(name: str, left: int, trial: Trial) -> Stop:
    refused = [] if trial.outcome is None else list(rejected(trial.outcome, EXAMPLES))
    return Stop(
        pod=name,
        pods=left,
        stage=trial.stage,
        message=trial.message,
        rejections=rejections(refused),
        preemption_might_help=sum(nodes for status, nodes, _ in refused if status.code is Code.UNSCHEDULABLE),
    )
