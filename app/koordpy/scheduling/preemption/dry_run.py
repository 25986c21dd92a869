"""Which pods must be evicted from a node so that another pod fits there.

On each node all pods that may be evicted are removed hypothetically; if the pod then fits, they are put back
one by one, the most important first, and those beside which the pod still fits stay. Many nodes are evaluated
together: each step is one pass of the filters over all of them. Only where a plugin considers the pods of
several nodes at once (spread constraints, affinity between pods) each node has its own state and its own
passes.

Source: Kubernetes, `SelectVictimsOnNode` in `framework/plugins/defaultpreemption` and `DryRunPreemption` in
`pkg/scheduler/framework/preemption`.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.sandbox import Sandbox
from koordpy.scheduling.framework.plugin_call import Broken
from koordpy.scheduling.interface import Victims
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import WhatIf
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.status import SUCCESS, Status

from .budgets import Budgets
from .importance import by_importance

NO_VICTIMS = Status.unresolvable("No preemption victims found for incoming pod")

OVER_LIMIT = Status.unresolvable("evicting pods of this node does not make enough room in the quota")

_FEW = 32
"""Fewer nodes than this are not worth a pass of their own."""


class Limit(Protocol):
    """What limits the pod besides the filters, such as a quota; followed for each node by itself."""

    def took(self, node_name: str, pod: Pod) -> None:
        """Note that a pod was removed from a node."""
        ...

    def gave_back(self, node_name: str, pod: Pod) -> None:
        """Note that a pod was put back."""
        ...

    def allows(self, node_name: str) -> bool:
        """Return whether the preempting pod is within its limit with the pods that are gone from a node."""
        ...


@dataclass(slots=True)
class Findings:
    """The results of the evaluated nodes."""

    candidates: dict[str, Victims] = field(default_factory=dict)
    """Candidates by node name. Those that violate no budget come first."""
    refused: dict[str, Status] = field(default_factory=dict)
    """The other nodes, with the reasons."""

    @property
    def errors(self) -> list[str]:
        """Errors, each text once."""
        broken = [s.message for s in self.refused.values() if not s.is_rejected]
        return list(dict.fromkeys(broken))


class DryRun:
    """The preempting pod. `may_go(victim)` tests whether it may evict a pod; unstarted pods start `now`.

    With a `limit`, which is made for each pass over nodes, pods are put back only if the pod stays within it.
    Koordinator removes a pod twice that fits neither the node nor the limit, which is an error for the node;
    with `counts_once` it is one victim, and nodes on which the limit is exceeded even without all possible
    victims are no candidates.
    """

    def __init__(
        self,
        framework: WhatIf,
        state: CycleState,
        pod: Pod,
        may_go: Callable[[Pod], bool],
        budgets: Budgets,
        now: datetime,
        *,
        limit: Callable[[], Limit] | None = None,
        counts_once: bool = False,
        no_victims: Callable[[str], Status] = lambda _: NO_VICTIMS,
    ) -> None:
        self.framework, self.state, self.pod = framework, state, pod
        self.may_go, self.budgets, self.now = may_go, budgets, now
        self.limit, self.counts_once, self.no_victims = limit, counts_once, no_victims
        self.entangled = framework.entangled(state)

    def run(self, nodes: NodeSet, wanted: int) -> Findings:
        """Evaluate nodes in their order until enough candidates are found.

        At least one of them must violate no budget.
        """
        clean: dict[str, Victims] = {}
        violating: dict[str, Victims] = {}
        refused: dict[str, Status] = {}
        begin = 0
        while begin < len(nodes):
            size = max(wanted - len(clean) - len(violating), _FEW)
            chunk = nodes.pick(np.arange(begin, min(begin + size, len(nodes))))
            begin += size
            for name, answer in self._look_at(chunk).items():
                if isinstance(answer, Status):
                    refused[name] = answer
                    continue
                found = violating if answer.pdb_violations else clean
                if len(found) < wanted:
                    found[name] = answer
                if clean and len(clean) + len(violating) >= wanted:
                    return Findings(clean | violating, refused)
        return Findings(clean | violating, refused)

    def _look_at(self, nodes: NodeSet) -> dict[str, Victims | Status]:
        """Return the victims, or why the node does not help, by name in the order of the nodes."""
        if not self.entangled:
            return _Pass(self, self.state.clone(), nodes).run()
        answers: dict[str, Victims | Status] = dict.fromkeys(nodes.names, SUCCESS)
        hopeless = self._hopeless(nodes)
        answers.update(hopeless)
        for index, name in enumerate(nodes.names):
            if name not in hopeless:
                one = nodes.pick(np.array([index]))
                answers.update(_Pass(self, self.state.clone(), one).run())
        return answers

    def _hopeless(self, nodes: NodeSet) -> dict[str, Status]:
        """Return the nodes that are already rejected by plugins that consider one node at a time."""
        state = self.state.clone()
        state.skip_filter.update(self.entangled)
        return _Pass(self, state, nodes).without_victims()


class _Pass:
    """Some nodes, evaluated together in one state."""

    def __init__(self, ask: DryRun, state: CycleState, nodes: NodeSet) -> None:
        self._ask, self._state, self._nodes = ask, state, nodes
        self._sandbox = Sandbox(nodes)
        self._answers: dict[int, Victims | Status] = {}
        self._potential: dict[int, list[Pod]] = {}
        self._limit = ask.limit() if ask.limit is not None else None

    def run(self) -> dict[str, Victims | Status]:
        try:
            self._evict_all()
            self._reprieve()
        except Broken as failure:
            return self._alone(failure.status)
        return {name: self._answers[index] for index, name in enumerate(self._nodes.names)}

    def without_victims(self) -> dict[str, Status]:
        """Return the nodes on which the pod does not fit even with all victims removed."""
        try:
            self._evict_all()
        except Broken:
            return {}
        names = self._nodes.names
        return {names[index]: answer for index, answer in self._answers.items() if isinstance(answer, Status)}

    def _alone(self, broken: Status) -> dict[str, Victims | Status]:
        """Evaluate each node by itself, so that an error on one does not affect the others."""
        if len(self._nodes) == 1:
            return {self._nodes.names[0]: broken}
        answers: dict[str, Victims | Status] = {}
        for index in range(len(self._nodes)):
            one = self._nodes.pick(np.array([index]))
            answers.update(_Pass(self._ask, self._ask.state.clone(), one).run())
        return answers

    def _evict_all(self) -> None:
        for index, row in enumerate(self._nodes.rows.tolist()):
            victims = [pod for pod in self._nodes.pods_on(row) if self._ask.may_go(pod)]
            if not victims:
                self._answers[index] = self._ask.no_victims(self._nodes.names[index])
                continue
            self._potential[index] = victims
            self._take(index, victims)
        if not self._potential:
            return
        indexes = list(self._potential)
        for index, status in self._refusals(indexes).items():
            self._answers[index] = status
            del self._potential[index]
        if self._ask.counts_once:
            for index in [index for index in self._potential if self._exceeds(index)]:
                self._answers[index] = OVER_LIMIT
                del self._potential[index]

    def _reprieve(self) -> None:
        """Put back pods that can stay, on all nodes at once: each node's most important pod first."""
        ask = self._ask
        queues: dict[int, list[Pod]] = {}
        threatened: dict[int, int] = {}
        both: dict[int, bool] = {}
        for index, pods in self._potential.items():
            leaving: list[Pod] = []
            if ask.counts_once:  # what terminates anyway is put back last
                leaving = [pod for pod in pods if pod.metadata.deletion_timestamp]
                pods = [pod for pod in pods if not pod.metadata.deletion_timestamp]
            violating, others = ask.budgets.split(by_importance(pods, ask.now))
            others += leaving
            queues[index] = violating + others
            threatened[index] = len(violating)
            both[index] = bool(violating and others)
        gone: dict[int, list[Pod]] = {index: [] for index in queues}
        violations = dict.fromkeys(queues, 0)
        turn = 0
        active = list(queues)
        while active:
            for index in active:
                self._put_back(index, queues[index][turn])
            refused = self._refusals(active)
            for index in refused:
                victim = queues[index][turn]
                self._take(index, [victim])
                gone[index].append(victim)
                violations[index] += turn < threatened[index]
            if self._limit is not None:
                self._reprieve_within_limit(active, refused, {i: queues[i][turn] for i in active}, gone)
            turn += 1
            active = [index for index in active if index in gone and turn < len(queues[index])]
        for index, victims in gone.items():
            if not victims:
                name = self._nodes.names[index]
                self._answers[index] = Status.failed(f'expected at least one victim pod on node "{name}"')
                continue
            if both[index] and self._limit is None:
                victims = by_importance(victims, ask.now)
            self._answers[index] = Victims(victims, violations[index])

    def _reprieve_within_limit(
        self,
        indexes: Sequence[int],
        refused: Collection[int],
        victims: Mapping[int, Pod],
        gone: dict[int, list[Pod]],
    ) -> None:
        """Remove pods again with which the limit is exceeded; the nodes in `refused` have lost theirs."""
        for index in indexes:
            if not self._exceeds(index):
                continue
            if index not in refused:
                self._take(index, [victims[index]])
                gone[index].append(victims[index])
            elif not self._ask.counts_once:
                key, name = victims[index].metadata.key, self._nodes.names[index]
                self._answers[index] = Status.failed(f"no corresponding pod {key} in pods of node {name}")
                del gone[index]

    def _exceeds(self, index: int) -> bool:
        return self._limit is not None and not self._limit.allows(self._nodes.names[index])

    def _refusals(self, indexes: Sequence[int]) -> dict[int, Status]:
        """Return the nodes of these where the pod does not fit now. Raises Broken."""
        at = np.array(indexes, np.int64)
        outcome: FilterOutcome = self._ask.framework.run_filters(
            self._state, self._ask.pod, self._sandbox.nodes.pick(at)
        )
        if outcome.error is not None:
            raise Broken(outcome.error)
        return {indexes[i]: outcome.status(i) for i in np.flatnonzero(~outcome.feasible).tolist()}

    def _take(self, index: int, pods: Sequence[Pod]) -> None:
        self._sandbox.take(index, pods)
        node = NodeInfo(self._sandbox.nodes, index)
        for pod in pods:
            self._ask.framework.remove_pod(self._state, self._ask.pod, pod, node)
            if self._limit is not None:
                self._limit.took(node.name, pod)

    def _put_back(self, index: int, pod: Pod) -> None:
        self._sandbox.put_back(index, pod)
        node = NodeInfo(self._sandbox.nodes, index)
        self._ask.framework.add_pod(self._state, self._ask.pod, pod, node)
        if self._limit is not None:
            self._limit.gave_back(node.name, pod)
