"""StatefulSets: numbered pods, in order. Source: Kubernetes, `pkg/controller/statefulset`."""

from contextlib import suppress
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.errors import AlreadyExists
from koordpy.cluster.events import NORMAL, WARNING

from .controller import Context, Controller
from .dependents import Dependents
from .expectations import Expectations
from .objects import ControllerRevision, PersistentVolumeClaim, StatefulSet, available_in
from .pod_control import PodControl, pod_of
from .revisions import HASH_LABEL, Revisions, hash_of, template_of

Document = dict[str, Any]

_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
_INDEX_LABEL = "apps.kubernetes.io/pod-index"
_CLAIM = resource_of(PersistentVolumeClaim)


class StatefulSetController(Controller):
    """Creates, replaces and deletes the pods of StatefulSets, and maintains their status."""

    name = "statefulset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._sets = context.cluster.store(StatefulSet)
        self._expectations = Expectations(context.clock)
        self._pods = Dependents(
            context.cluster.store(Pod), self._sets, self.queue, context.client, self._expectations
        )
        self._claims = context.cluster.store(PersistentVolumeClaim)
        self._revisions = Revisions(context, self._sets, self.queue)
        self._control = PodControl(context.client, self._expectations, self._events, context.rng)
        self._sets.subscribe(self._changed, lambda _, new: self._changed(new), self._gone)

    def _changed(self, stateful_set: StatefulSet) -> None:
        self.queue.add(stateful_set.metadata.key)

    def _gone(self, stateful_set: StatefulSet) -> None:
        self._expectations.forget(stateful_set.metadata.key)

    async def reconcile(self, key: str) -> float | None:
        """Take the next step of a StatefulSet, and write its status."""
        stateful_set = self._sets.by_key(key)
        if stateful_set is None:
            return None
        pods = await self._pods.claim(stateful_set)
        update = await self._revisions.current(stateful_set)
        current = self._current(stateful_set, update)
        again = self._expectations.pending(key)
        if again == 0.0:
            await self._context.catch_up(Pod)
            self._expectations.forget(key)
            return 0.0
        if stateful_set.metadata.deletion_timestamp is None and again is None:
            await self._step(stateful_set, pods, current, update)
            live = {pod.metadata.labels.get(HASH_LABEL, "") for pod in pods} | {hash_of(current)}
            await self._revisions.truncate(stateful_set, live)
        wait = await self._update_status(stateful_set, pods, current, update)
        waits = [seconds for seconds in (again, wait) if seconds is not None]
        return min(waits) if waits else None

    def _current(self, stateful_set: StatefulSet, update: ControllerRevision) -> ControllerRevision:
        name = stateful_set.status.get("currentRevision")
        known = self._revisions.of(stateful_set)
        return next((item for item in known if item.metadata.name == name), update)

    # --- pods ------------------------------------------------------------------------------------

    async def _step(
        self,
        stateful_set: StatefulSet,
        pods: list[Pod],
        current: ControllerRevision,
        update: ControllerRevision,
    ) -> None:
        """Do what comes next: create, replace ended ones, scale down, update. Ordered sets do one thing."""
        ordered = stateful_set.spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        first = _first(stateful_set)
        wanted = range(first, first + stateful_set.replicas)
        by_number = {number: pod for pod in pods if (number := _number(stateful_set, pod)) is not None}
        for number in wanted:
            pod = by_number.get(number)
            if pod is None:
                await self._create(stateful_set, number, current, update)
                if ordered:
                    return
            elif pod.is_terminal and pod.metadata.deletion_timestamp is None:
                told = f"StatefulSet {stateful_set.metadata.key} is recreating failed Pod {pod.metadata.name}"
                self._events.event(stateful_set, WARNING, "RecreatingFailedPod", told)
                await self._control.delete(stateful_set, [pod])
                if ordered:
                    return
            elif ordered and not self._is_available(stateful_set, pod):
                return
        condemned = sorted((number for number in by_number if number not in wanted), reverse=True)
        for number in condemned:
            pod = by_number[number]
            if pod.metadata.deletion_timestamp is None:
                await self._control.delete(stateful_set, [pod])
            if ordered:
                return
        strategy = stateful_set.spec.get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        least = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        for number in reversed(wanted):
            pod = by_number.get(number)
            if number < first + least or pod is None:
                return
            if pod.metadata.deletion_timestamp is not None:
                return
            if pod.metadata.labels.get(HASH_LABEL) != hash_of(update):
                await self._control.delete(stateful_set, [pod])
                return
            if not self._is_available(stateful_set, pod):
                return

    def _is_available(self, stateful_set: StatefulSet, pod: Pod) -> bool:
        if pod.metadata.deletion_timestamp is not None:
            return False
        min_ready = float(stateful_set.spec.get("minReadySeconds") or 0)
        return available_in(pod, min_ready, self._clock.now()) == 0.0

    async def _create(
        self,
        stateful_set: StatefulSet,
        number: int,
        current: ControllerRevision,
        update: ControllerRevision,
    ) -> None:
        revision = current if self._stays_current(stateful_set, number, current, update) else update
        name = f"{stateful_set.metadata.name}-{number}"
        document = pod_of(template_of(revision), stateful_set, name)
        document["metadata"]["labels"] |= {
            _NAME_LABEL: name,
            _INDEX_LABEL: str(number),
            HASH_LABEL: hash_of(revision),
        }
        spec = document["spec"]
        spec.setdefault("hostname", name)
        if service := stateful_set.spec.get("serviceName"):
            spec.setdefault("subdomain", service)
        await self._ensure_claims(stateful_set, number, spec)
        with suppress(AlreadyExists):  # the view is behind, or the former pod is still there
            await self._control.create(stateful_set, [document])

    @staticmethod
    def _stays_current(
        stateful_set: StatefulSet, number: int, current: ControllerRevision, update: ControllerRevision
    ) -> bool:
        """Return whether a new pod has the old template: its number is below the partition."""
        strategy = stateful_set.spec.get("updateStrategy") or {}
        if current is update or strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return False
        partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        return number < _first(stateful_set) + partition

    async def _ensure_claims(self, stateful_set: StatefulSet, number: int, spec: Document) -> None:
        """Create the claims of a pod, which outlive it, and let its volumes name them."""
        volumes = {volume["name"]: volume for volume in spec.get("volumes") or ()}
        for template in stateful_set.spec.get("volumeClaimTemplates") or ():
            kind = template["metadata"]["name"]
            name = f"{kind}-{stateful_set.metadata.name}-{number}"
            volumes[kind] = {"name": kind, "persistentVolumeClaim": {"claimName": name}}
            if self._claims.get(stateful_set.metadata.namespace, name) is not None:
                continue
            given = template["metadata"]
            labels = {
                **(given.get("labels") or {}),
                **((stateful_set.spec.get("selector") or {}).get("matchLabels") or {}),
            }
            metadata = {"name": name, "namespace": stateful_set.metadata.namespace, "labels": labels}
            if given.get("annotations"):
                metadata["annotations"] = given["annotations"]
            document = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": template["spec"],
            }
            with suppress(AlreadyExists):
                await self._client.create_raw(_CLAIM, stateful_set.metadata.namespace, document)
                told = f"create Claim {name} Pod {stateful_set.metadata.name}-{number} in StatefulSet "
                told += f"{stateful_set.metadata.name} success"
                self._events.event(stateful_set, NORMAL, "SuccessfulCreate", told)
        if volumes:
            spec["volumes"] = list(volumes.values())

    # --- status ----------------------------------------------------------------------------------

    async def _update_status(
        self,
        stateful_set: StatefulSet,
        pods: list[Pod],
        current: ControllerRevision,
        update: ControllerRevision,
    ) -> float | None:
        """Write the status; return the seconds until another pod is available."""
        now = self._clock.now()
        min_ready = float(stateful_set.spec.get("minReadySeconds") or 0)
        waits = [available_in(pod, min_ready, now) for pod in pods]
        staying = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        hashes = [pod.metadata.labels.get(HASH_LABEL) for pod in staying]
        updated = hashes.count(hash_of(update))
        ready = sum(wait is not None for wait in waits)
        same = current.metadata.name == update.metadata.name
        done = not same and updated == ready == len(pods) == stateful_set.replicas
        if done:
            current, same = update, True
        await self._write_status(
            stateful_set,
            {
                "observedGeneration": stateful_set.metadata.generation,
                "replicas": len(pods),
                "readyReplicas": ready or None,
                "availableReplicas": sum(wait == 0.0 for wait in waits),
                "currentReplicas": (updated if same else hashes.count(hash_of(current))) or None,
                "updatedReplicas": updated or None,
                "currentRevision": current.metadata.name,
                "updateRevision": update.metadata.name,
                "collisionCount": stateful_set.status.get("collisionCount", 0),
            },
        )
        later = [wait for wait in waits if wait]
        return min(later) if later else None


def _first(stateful_set: StatefulSet) -> int:
    return int((stateful_set.spec.get("ordinals") or {}).get("start") or 0)


def _number(stateful_set: StatefulSet, pod: Pod) -> int | None:
    """Return the ordinal of a pod, from its name."""
    prefix, _, text = pod.metadata.name.rpartition("-")
    return int(text) if prefix == stateful_set.metadata.name and text.isdigit() else None
