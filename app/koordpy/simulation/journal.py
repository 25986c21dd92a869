"""The history of every pod, from which the report is computed."""

from collections import deque
from dataclasses import dataclass, field

from .gangs import GangJournal
from .planned import PlannedPod


@dataclass(slots=True)
class Incarnation:
    """One pod object: a planned pod, or its replacement after an eviction."""

    planned: PlannedPod
    namespace: str
    name: str
    created: float
    bound: float | None = None
    node: str = ""
    ended: float | None = None
    outcome: str = ""
    """`finished`, `evicted`, `scaled-down`, `node-left`; empty while the pod is there."""
    evicted: float | None = None
    """When its eviction began."""
    replaces: "Incarnation | None" = None
    """The evicted pod in whose place its owner created it."""
    attempts_failed: bool = False
    """Whether it was found unschedulable at least once."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


@dataclass(slots=True)
class Journal:
    """All created pods, in order, and rejected ones.

    An eviction is repeated if the pod replaces one that was evicted less than `repeated_within` seconds ago.
    """

    repeated_within: float = 0.0
    gangs: GangJournal = field(default_factory=lambda: GangJournal({}))
    pods: list[Incarnation] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Pods that the API server or a webhook rejected: their keys, and the reasons."""
    problems: list[str] = field(default_factory=list)
    """Other rejected objects, with the reasons."""
    alive: dict[tuple[str, str], Incarnation] = field(default_factory=dict)
    running: int = 0
    evictions: int = 0
    repeated: int = 0
    _vacant: dict[int, deque[Incarnation]] = field(default_factory=dict)
    """Evicted pods without a replacement yet, by their planned pods' identities."""

    def created(self, planned: PlannedPod, namespace: str, name: str, now: float) -> Incarnation:
        """Record a new pod."""
        pod = Incarnation(planned, namespace, name, now)
        if vacant := self._vacant.get(id(planned)):
            pod.replaces = vacant.popleft()
        self.pods.append(pod)
        self.alive[pod.key] = pod
        self.gangs.created(planned, now)
        return pod

    def bound(self, pod: Incarnation, node: str, now: float) -> None:
        """Record that a pod is bound."""
        pod.bound, pod.node = now, node
        self.running += 1
        self.gangs.bound(pod.planned, now)

    def evicting(self, pod: Incarnation, now: float) -> None:
        """Record that a pod's eviction begins."""
        if pod.evicted is not None:
            return
        pod.outcome, pod.evicted = "evicted", now
        before = pod.replaces
        if before is not None and before.evicted is not None and now - before.evicted < self.repeated_within:
            self.repeated += 1
        pod.replaces = None  # keeps histories short
        self._vacant.setdefault(id(pod.planned), deque()).append(pod)

    def ended(self, pod: Incarnation, outcome: str, now: float) -> None:
        """Record that a pod is gone."""
        if not pod.outcome and outcome == "evicted":
            self.evicting(pod, now)
        pod.ended, pod.outcome = now, pod.outcome or outcome
        self.alive.pop(pod.key, None)
        self.gangs.ended(
            pod.planned, now, was_bound=pod.bound is not None, finished=pod.outcome == "finished"
        )
        if pod.bound is not None:
            self.running -= 1
        if pod.outcome in ("evicted", "node-left"):
            self.evictions += 1

    @property
    def pending(self) -> int:
        """How many pods wait for a node."""
        return len(self.alive) - self.running
