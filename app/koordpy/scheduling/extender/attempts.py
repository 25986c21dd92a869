"""Scheduling attempts between their filter call and their bind call.

kube-scheduler does not report when it abandons a pod, so attempts are bounded in number, age and memory. A
new filter call for the same pod is a new attempt. An attempt that is being bound is never dropped.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.byte_budget import ByteBudget
from koordpy.lib.clock import Clock
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.explain.decisions import Decision
from koordpy.scheduling.explain.remembered_pod import POD_FACTOR
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.outcome import Scores

MOST_KEPT = 10_000
KEPT_SECONDS = 20 * 60.0
"""Longer than the longest wait in Permit."""

NODE_BYTES = 200
"""Of an attempt, for each node."""

MAX_BYTES = 40 << 20
"""The budget of attempts that are kept with all that was found out about them: 40 attempts at 5,000 nodes. A
bind call that is further behind filters its node again."""


@dataclass(slots=True)
class Attempt:
    """One attempt to place a pod."""

    pod: Pod
    framework: Framework
    state: CycleState
    decision: Decision
    began: float
    """Monotonic seconds."""
    term: int = 0
    """The term of the fence in which nodes were filtered: in another one, other processes may have allocated
    what no node shows, such as quotas."""
    moment: tuple[int, int] = (0, 0)
    """`NodeTable.moment` when nodes were filtered."""
    hidden_version: int = 0
    """`HiddenPods.version` at that time: terms and constraints also concern pods of other nodes."""
    kept: NodeSet | None = None
    kept_names: bytes = b""
    """The kept names as they were sent to kube-scheduler."""
    scores: Scores | None = None
    priorities: bytes = b""
    placement: Placement | None = None
    """What has been allocated for the pod, while it is being bound."""
    was_written: bool = False
    """Whether its binding was sent to the API server."""
    is_gone: bool = False
    """Whether its pod was deleted while it was being bound."""
    is_superseded: bool = False
    """Whether the attempt was ended from outside while its bind waited."""
    is_reserved: bool = False
    """Whether `state` was used to reserve the node ahead of the bind call."""
    is_condensed: bool = False
    """Whether `state` is empty again, and `pod` only the pod's identity."""
    pod_bytes: int = 4096
    """About the length of the pod's JSON text."""

    @property
    def binding_to(self) -> str:
        """The node that the pod is being bound to; empty before and after."""
        return "" if self.placement is None else self.placement.node_name

    @property
    def is_waiting(self) -> bool:
        """Whether a Permit plugin makes the pod wait."""
        return self.placement is not None and self.placement.is_waiting

    @property
    def size(self) -> int:
        """Bytes, by estimate, until it is condensed."""
        outcome = self.decision.outcome
        nodes = 0 if outcome is None or self.decision.evaluated_for else len(outcome.nodes)
        return NODE_BYTES * nodes + POD_FACTOR * self.pod_bytes

    def has_kept(self, row: int) -> bool:
        """Return whether a node passed the filters of this attempt."""
        return self.kept is not None and bool(np.count_nonzero(self.kept.rows == row))

    def shed(self) -> None:
        """Drop what only filter and prioritize need: thousands of pods may wait in Permit."""
        self.kept = self.scores = None
        self.kept_names = self.priorities = b""

    def condense(self) -> None:
        """Let go of everything that a bind call, or another prioritize call, can find out again."""
        self.shed()
        self.state = self.framework.new_state()
        self.is_condensed = True
        self.decision.condense()
        self.pod = self.decision.pod  # only the pod's identity by now


@dataclass(slots=True)
class Attempts:
    """The attempts of a process, by pod UID."""

    clock: Clock
    most: int = MOST_KEPT
    seconds: float = KEPT_SECONDS
    budget: ByteBudget = field(default_factory=lambda: ByteBudget("attempts", MAX_BYTES))
    _attempts: OrderedDict[str, Attempt] = field(default_factory=OrderedDict)
    _in_full: OrderedDict[str, tuple[Attempt, int]] = field(default_factory=OrderedDict)
    """Attempts that are not condensed, oldest first, with their bytes."""

    def __len__(self) -> int:
        return len(self._attempts)

    def __iter__(self) -> Iterator[Attempt]:
        return iter(list(self._attempts.values()))

    def get(self, uid: str) -> Attempt | None:
        """Return a pod's attempt, None if there is none or it is too old."""
        attempt = self._attempts.get(uid)
        if attempt is not None and self._is_old(attempt):
            self._drop(uid)
            return None
        return attempt

    def put(self, attempt: Attempt) -> None:
        """Store an attempt in place of the pod's earlier one, and drop those that are too old or too many."""
        uid = attempt.pod.metadata.uid
        self._drop(uid)
        self._attempts[uid] = attempt
        size = attempt.size
        self._in_full[uid] = attempt, size
        self.budget.add(size)
        if self.budget.held > 2 * self.budget.limit:
            self.tidy()
        while self._attempts:
            oldest_uid, oldest = next(iter(self._attempts.items()))
            if not (self._is_old(oldest) or len(self._attempts) > self.most):
                return
            if oldest.placement is not None:
                self._attempts.move_to_end(oldest_uid)
                if all(other.placement is not None for other in self._attempts.values()):
                    return
            else:
                self._drop(oldest_uid)

    def discard(self, attempt: Attempt) -> None:
        """Forget an attempt, unless a later one has taken its place."""
        uid = attempt.pod.metadata.uid
        if self._attempts.get(uid) is attempt:
            self._drop(uid)

    def _drop(self, uid: str) -> None:
        self._attempts.pop(uid, None)
        known = self._in_full.pop(uid, None)
        if known is not None:
            self.budget.remove(known[1])

    def tidy(self) -> None:
        """Condense the oldest attempts beyond the limit; call it when no answer is waited for.

        The latest stays, which is still to be scored.
        """
        while self.budget.is_exceeded and len(self._in_full) > 1:
            _, (attempt, size) = self._in_full.popitem(last=False)
            self.budget.remove(size)
            if (
                attempt.placement is None
            ):  # else its nodes are dropped already, and its plugins need the state
                attempt.condense()

    def _is_old(self, attempt: Attempt) -> bool:
        return attempt.placement is None and self.clock.monotonic() - attempt.began > self.seconds
