"""The history of every pod, from which the report is computed."""

from dataclasses import dataclass, field

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
    attempts_failed: bool = False
    """Whether it was found unschedulable at least once."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name


@dataclass(slots=True)
class Journal:
    """All created pods, in order, and rejected ones."""

    pods: list[Incarnation] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Pods that the API server or a webhook rejected: their keys, and the reasons."""
    problems: list[str] = field(default_factory=list)
    """Other rejected objects, with the reasons."""
    alive: dict[tuple[str, str], Incarnation] = field(default_factory=dict)
    running: int = 0
    evictions: int = 0

    def created(self, planned: PlannedPod, namespace: str, name: str, now: float) -> Incarnation:
        """Record a new pod."""
        pod = Incarnation(planned, namespace, name, now)
        self.pods.append(pod)
        self.alive[pod.key] = pod
        return pod

    def bound(self, pod: Incarnation, node: str, now: float) -> None:
        """Record that a pod is bound."""
        pod.bound, pod.node = now, node
        self.running += 1

    def ended(self, pod: Incarnation, outcome: str, now: float) -> None:
        """Record that a pod is gone."""
        pod.ended, pod.outcome = now, pod.outcome or outcome
        self.alive.pop(pod.key, None)
        if pod.bound is not None:
            self.running -= 1
        if pod.outcome in ("evicted", "node-left"):
            self.evictions += 1

    @property
    def pending(self) -> int:
        """How many pods wait for a node."""
        return len(self.alive) - self.running
