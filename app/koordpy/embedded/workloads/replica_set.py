"""ReplicaSets: as many pods as wanted. Source: Kubernetes, `pkg/controller/replicaset`."""

from collections import Counter
from datetime import datetime
from typing import Any

from koordpy.api.core import Pod
from koordpy.cluster.errors import ApiError

from .controller import Context, Controller, with_condition
from .dependents import Dependents
from .expectations import Expectations
from .objects import ReplicaSet, available_in, is_active, ready_since
from .pod_control import BURST, PodControl, pod_of
from .template_hash import suffix

Document = dict[str, Any]

_PHASES = {"Pending": 0, "": 0, "Unknown": 1, "Running": 2}
_COST = "controller.kubernetes.io/pod-deletion-cost"


class ReplicaSetController(Controller):
    """Creates and deletes the pods of ReplicaSets, and maintains their status."""

    name = "replicaset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._sets = context.cluster.store(ReplicaSet)
        self._expectations = Expectations(context.clock)
        self._pods = Dependents(
            context.cluster.store(Pod), self._sets, self.queue, context.client, self._expectations
        )
        self._control = PodControl(context.client, self._expectations, self._events, context.rng)
        self._sets.subscribe(self._changed, lambda _, new: self._changed(new), self._gone)

    def _changed(self, rs: ReplicaSet) -> None:
        self.queue.add(rs.metadata.key)

    def _gone(self, rs: ReplicaSet) -> None:
        self._expectations.forget(rs.metadata.key)

    async def reconcile(self, key: str) -> float | None:
        """Bring the number of pods closer to the wanted one, and write the status."""
        rs = self._sets.by_key(key)
        if rs is None:
            return None
        pods = [pod for pod in await self._pods.claim(rs) if is_active(pod)]
        again = self._expectations.pending(key)
        if again == 0.0:
            await self._context.catch_up(Pod)
            self._expectations.forget(key)
            again, pods = None, [pod for pod in self._pods.of(rs) if is_active(pod)]
        failure: Exception | None = None
        if again is None and rs.metadata.deletion_timestamp is None:
            try:
                await self._manage(rs, pods)
            except ApiError as error:
                failure = error
        wait = await self._update_status(rs, pods, failure)
        if failure is not None:
            raise failure
        waits = [seconds for seconds in (again, wait) if seconds is not None]
        return min(waits) if waits else None

    async def _manage(self, rs: ReplicaSet, pods: list[Pod]) -> None:
        missing = rs.replicas - len(pods)
        if missing > 0:
            prefix = f"{rs.metadata.name}-"
            template = rs.spec.get("template") or {}
            documents = [
                pod_of(template, rs, prefix + suffix(self._rng), generate_name=prefix)
                for _ in range(min(missing, BURST))
            ]
            await self._control.create(rs, documents)
        elif missing < 0:
            surplus = min(-missing, BURST)
            await self._control.delete(rs, in_order_of_deletion(pods)[:surplus])
        if abs(missing) > BURST:
            self.queue.add(rs.metadata.key)

    async def _update_status(
        self, rs: ReplicaSet, pods: list[Pod], failure: Exception | None
    ) -> float | None:
        """Write the status; return the seconds until another pod is available."""
        now: datetime = self._clock.now()
        min_ready = float(rs.spec.get("minReadySeconds") or 0)
        waits = [available_in(pod, min_ready, now) for pod in pods]
        labels = ((rs.spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        conditions = list(rs.status.get("conditions") or [])
        if failure is not None:
            told = getattr(failure, "message", str(failure))
            reason = "FailedCreate" if rs.replicas > len(pods) else "FailedDelete"
            conditions = with_condition(conditions, "ReplicaFailure", True, reason, told, self._now())
        else:
            conditions = [item for item in conditions if item["type"] != "ReplicaFailure"]
        labelled = sum(pod.metadata.labels.items() >= labels.items() for pod in pods)
        status: Document = {
            "replicas": len(pods),
            "fullyLabeledReplicas": labelled or None,
            "readyReplicas": sum(wait is not None for wait in waits) or None,
            "availableReplicas": sum(wait == 0.0 for wait in waits) or None,
            "observedGeneration": max(rs.metadata.generation, rs.observed),
            "conditions": conditions or None,
        }
        await self._write_status(rs, status)
        later = [wait for wait in waits if wait]
        return min(later) if later else None


def in_order_of_deletion(pods: list[Pod]) -> list[Pod]:
    """Return pods with those first that are deleted first: least useful, most crowded, youngest.

    Source: Kubernetes, `pkg/controller/controller_utils.go` (`ActivePodsWithRanks`).
    """
    crowd = Counter(pod.spec.node_name for pod in pods)

    def rank(pod: Pod) -> tuple[Any, ...]:
        since = ready_since(pod)
        restarts = max((status.restart_count for status in pod.status.container_statuses), default=0)
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 1),
            since is not None,
            _cost(pod),
            -crowd[pod.spec.node_name],
            -since.timestamp() if since is not None else 0.0,
            -restarts,
            _youngest_first(pod),
        )

    return sorted(pods, key=rank)


def _cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(_COST, "0"))
    except ValueError:
        return 0


def _youngest_first(pod: Pod) -> tuple[int, ...]:
    return tuple(-ord(character) for character in pod.metadata.creation_timestamp or "")
