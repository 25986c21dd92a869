"""Deployments: a ReplicaSet for each pod template, and the way from one to the next.

Source: Kubernetes, `pkg/controller/deployment`.
"""

from datetime import timedelta
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.meta import parse_time
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.errors import AlreadyExists, NotFound
from koordpy.cluster.events import NORMAL

from . import rollout
from .controller import Context, Controller, condition, with_condition
from .dependents import Dependents, controller_uid
from .objects import Deployment, ReplicaSet, created_at, owner_reference
from .rollout import DESIRED, HISTORY, MAXIMUM, REVISION
from .template_hash import template_hash

Document = dict[str, Any]

HASH_LABEL = "pod-template-hash"
_SET = resource_of(ReplicaSet)
_LONGEST_DEADLINE = 1e9
_NOT_COPIED = ("kubectl.kubernetes.io/last-applied-configuration", REVISION, HISTORY, DESIRED, MAXIMUM)


class DeploymentController(Controller):
    """Creates and sizes the ReplicaSets of Deployments, and maintains their status."""

    name = "deployment-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._deployments = context.cluster.store(Deployment)
        self._sets = Dependents(
            context.cluster.store(ReplicaSet), self._deployments, self.queue, context.client
        )
        pods = context.cluster.store(Pod)
        self._pods_of_set = pods.index(controller_uid)
        pods.subscribe(on_delete=self._pod_gone)
        self._deployments.subscribe(self._changed, lambda _, new: self._changed(new), None)

    def _changed(self, deployment: Deployment) -> None:
        self.queue.add(deployment.metadata.key)

    def _pod_gone(self, pod: Pod) -> None:
        """Continue a Recreate rollout, which waits until the last old pod is gone."""
        owner = pod.metadata.controller
        if owner is None or owner.kind != "ReplicaSet":
            return
        rs = self._sets.store.get(pod.metadata.namespace, owner.name)
        parent = None if rs is None else rs.metadata.controller
        if parent is not None and parent.kind == "Deployment":
            deployment = self._deployments.get(pod.metadata.namespace, parent.name)
            if deployment is not None and not rollout.is_rolling(deployment):
                self.queue.add(deployment.metadata.key)

    async def reconcile(self, key: str) -> float | None:
        """Take the next step of a Deployment, and write its status."""
        deployment = self._deployments.by_key(key)
        if deployment is None:
            return None
        sets = sorted(await self._sets.claim(deployment), key=created_at)
        if deployment.metadata.deletion_timestamp is not None:
            new, _ = self._split(deployment, sets)
            return await self._sync_status(deployment, sets, new)
        if deployment.spec.get("paused") or self._was_scaled(deployment, sets):
            return await self._scale(deployment, sets)
        if rollout.is_rolling(deployment):
            return await self._roll(deployment, sets)
        return await self._recreate(deployment, sets)

    # --- ReplicaSets -----------------------------------------------------------------------------

    @staticmethod
    def _split(deployment: Deployment, sets: list[ReplicaSet]) -> tuple[ReplicaSet | None, list[ReplicaSet]]:
        """Return the ReplicaSet of the current template, and the others."""
        template = _plain(deployment.spec.get("template") or {})
        new = next((rs for rs in sets if _plain(rs.spec.get("template") or {}) == template), None)
        return new, [rs for rs in sets if rs is not new]

    @staticmethod
    def _was_scaled(deployment: Deployment, sets: list[ReplicaSet]) -> bool:
        wanted = str(deployment.replicas)
        return any(rs.metadata.annotations.get(DESIRED, wanted) != wanted for rs in rollout.active(sets))

    async def _new_set(
        self, deployment: Deployment, sets: list[ReplicaSet], *, create: bool
    ) -> tuple[ReplicaSet | None, list[ReplicaSet]]:
        """Return the ReplicaSet of the current template, made if it is missing, and the old ones."""
        new, old = self._split(deployment, sets)
        revision = max((rollout.revision_of(rs) for rs in old), default=0) + 1
        if new is None:
            if not create:
                return None, old
            new = await self._create(deployment, old, revision)
        else:
            new = await self._renew(deployment, new, revision)
        current = rollout.revision_of(new)
        if rollout.revision_of(deployment) != current:
            patch = {"metadata": {"annotations": {REVISION: str(current)}}}
            await self._client.patch_raw(
                resource_of(Deployment), deployment.metadata.namespace, deployment.metadata.name, patch
            )
        return new, old

    def _annotations(self, deployment: Deployment, revision: int) -> dict[str, str]:
        surge, _ = rollout.limits(deployment)
        copied = {k: v for k, v in deployment.metadata.annotations.items() if k not in _NOT_COPIED}
        return copied | {
            REVISION: str(revision),
            DESIRED: str(deployment.replicas),
            MAXIMUM: str(deployment.replicas + surge),
        }

    async def _create(self, deployment: Deployment, old: list[ReplicaSet], revision: int) -> ReplicaSet:
        meta = deployment.metadata
        template = deployment.spec.get("template") or {}
        collisions = deployment.status.get("collisionCount")
        hashed = template_hash(_plain(template), collisions)
        labels = {**(template.get("metadata", {}).get("labels") or {}), HASH_LABEL: hashed}
        selector = deployment.spec.get("selector") or {}
        spec: Document = {
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: hashed},
            },
            "template": {**template, "metadata": {**(template.get("metadata") or {}), "labels": labels}},
            "replicas": 0,
        }
        if deployment.spec.get("minReadySeconds"):
            spec["minReadySeconds"] = deployment.spec["minReadySeconds"]
        name = f"{meta.name}-{hashed}"
        document: Document = {
            "apiVersion": _SET.api_version,
            "kind": _SET.kind,
            "metadata": {
                "name": name,
                "namespace": meta.namespace,
                "labels": labels,
                "annotations": self._annotations(deployment, revision),
                "ownerReferences": [owner_reference(deployment)],
            },
            "spec": spec,
        }
        draft = decode(ReplicaSet, document)
        size = spec["replicas"] = rollout.new_size(deployment, draft, [*old, draft])
        try:
            made = await self._client.create_raw(_SET, meta.namespace, document)
        except AlreadyExists:
            return await self._resolve_collision(deployment, name)
        if size:
            told = f"Scaled up replica set {name} from 0 to {size}"
            self._events.event(deployment, NORMAL, "ScalingReplicaSet", told)
        return decode(ReplicaSet, made)

    async def _resolve_collision(self, deployment: Deployment, name: str) -> ReplicaSet:
        """Return the ReplicaSet of that name if it is the wanted one; else count a collision and fail."""
        found = await self._client.get(ReplicaSet, deployment.metadata.namespace, name)
        owner = found.metadata.controller
        mine = owner is not None and owner.uid == deployment.metadata.uid
        template = _plain(deployment.spec.get("template") or {})
        if mine and _plain(found.spec.get("template") or {}) == template:
            return found
        count = deployment.count("collisionCount") + 1
        await self._write_status(deployment, {**deployment.status, "collisionCount": count})
        raise NotFound("GET", name, 404, "NotFound", f"ReplicaSet {name} is another one's", {}, None)

    async def _renew(self, deployment: Deployment, new: ReplicaSet, revision: int) -> ReplicaSet:
        """Bring annotations and minReadySeconds of the current ReplicaSet up to date."""
        annotations = new.metadata.annotations
        current = rollout.revision_of(new)
        wanted = self._annotations(deployment, max(revision, current))
        if revision > current and current:
            history = [item for item in annotations.get(HISTORY, "").split(",") if item]
            wanted[HISTORY] = ",".join([*history, str(current)])
        changed = {k: v for k, v in wanted.items() if annotations.get(k) != v}
        for name in (DESIRED, MAXIMUM):  # only a change of the size changes these
            changed.pop(name, None)
        ready = deployment.spec.get("minReadySeconds") or None
        patch: Document = {"metadata": {"annotations": changed}} if changed else {}
        if (new.spec.get("minReadySeconds") or None) != ready:
            patch["spec"] = {"minReadySeconds": ready}
        return decode(ReplicaSet, await self._patch(new, patch)) if patch else new

    async def _resize(self, deployment: Deployment, rs: ReplicaSet, size: int) -> ReplicaSet:
        """Scale a ReplicaSet, and note for which size of the Deployment that is."""
        surge, _ = rollout.limits(deployment)
        wanted = {DESIRED: str(deployment.replicas), MAXIMUM: str(deployment.replicas + surge)}
        changed = {k: v for k, v in wanted.items() if rs.metadata.annotations.get(k) != v}
        if rs.replicas == size and not changed:
            return rs
        patch: Document = {"spec": {"replicas": size}, "metadata": {"annotations": changed}}
        resized = decode(ReplicaSet, await self._patch(rs, patch))
        if rs.replicas != size:
            direction = "up" if size > rs.replicas else "down"
            told = f"Scaled {direction} replica set {rs.metadata.name} from {rs.replicas} to {size}"
            self._events.event(deployment, NORMAL, "ScalingReplicaSet", told)
        return resized

    # --- steps -----------------------------------------------------------------------------------

    async def _scale(self, deployment: Deployment, sets: list[ReplicaSet]) -> float | None:
        new, old = await self._new_set(deployment, sets, create=False)
        sizes = rollout.scaled_sizes(deployment, new, old)
        every = [rs for rs in (*old, new) if rs is not None]
        resized = [
            await self._resize(deployment, rs, sizes.get(rs.metadata.name, rs.replicas))
            if rs.metadata.name in sizes or rs.replicas
            else rs
            for rs in every
        ]
        new = next((rs for rs in resized if new is not None and rs.metadata.uid == new.metadata.uid), None)
        if deployment.spec.get("paused"):
            await self._clean_up(deployment, [rs for rs in resized if rs is not new])
        return await self._sync_status(deployment, resized, new)

    async def _roll(self, deployment: Deployment, sets: list[ReplicaSet]) -> float | None:
        new, old = await self._new_set(deployment, sets, create=True)
        assert new is not None
        size = rollout.new_size(deployment, new, [*old, new])
        if new.replicas > deployment.replicas:
            size = deployment.replicas
        if size != new.replicas:
            new = await self._resize(deployment, new, size)
            return await self._sync_status(deployment, [*old, new], new)
        sizes = rollout.old_sizes(deployment, new, old)
        if sizes:
            old = [await self._resize(deployment, rs, sizes.get(rs.metadata.name, rs.replicas)) for rs in old]
            return await self._sync_status(deployment, [*old, new], new)
        if rollout.is_complete(deployment, _counts(deployment, [*old, new], new)):
            await self._clean_up(deployment, old)
        return await self._sync_status(deployment, [*old, new], new)

    async def _recreate(self, deployment: Deployment, sets: list[ReplicaSet]) -> float | None:
        new, old = await self._new_set(deployment, sets, create=False)
        every = [rs for rs in (*old, new) if rs is not None]
        if rollout.active(old):
            old = [await self._resize(deployment, rs, 0) for rs in old]
            return await self._sync_status(deployment, [*old, *([new] if new else [])], new)
        if any(not pod.is_terminal for rs in old for pod in self._pods_of_set.get(rs.metadata.uid)):
            return await self._sync_status(deployment, every, new)
        new, old = await self._new_set(deployment, every, create=True)
        assert new is not None
        new = await self._resize(deployment, new, deployment.replicas)
        if rollout.is_complete(deployment, _counts(deployment, [*old, new], new)):
            await self._clean_up(deployment, old)
        return await self._sync_status(deployment, [*old, new], new)

    async def _clean_up(self, deployment: Deployment, old: list[ReplicaSet]) -> None:
        """Delete the oldest ReplicaSets without pods beyond the history limit."""
        limit = deployment.spec.get("revisionHistoryLimit", 10)
        there = [rs for rs in old if rs.metadata.deletion_timestamp is None]
        for rs in sorted(there, key=rollout.revision_of)[: max(len(there) - limit, 0)]:
            if rs.replicas or rs.count("replicas") or rs.metadata.generation > rs.observed:
                continue
            try:
                await self._client.delete(
                    ReplicaSet, rs.metadata.namespace, rs.metadata.name, uid=rs.metadata.uid
                )
            except NotFound:
                continue

    # --- status ----------------------------------------------------------------------------------

    async def _sync_status(
        self, deployment: Deployment, sets: list[ReplicaSet], new: ReplicaSet | None
    ) -> float | None:
        """Write the status; return the seconds until the progress deadline, if it counts."""
        counts = _counts(deployment, sets, new)
        now = self._now()
        conditions = list(deployment.status.get("conditions") or [])
        _, unavailable = rollout.limits(deployment)
        enough = counts.get("availableReplicas", 0) >= deployment.replicas - unavailable
        conditions = with_condition(
            conditions,
            "Available",
            enough,
            "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            f"Deployment {'has' if enough else 'does not have'} minimum availability.",
            now,
            update_time=True,
        )
        wait: float | None = None
        if deployment.spec.get("progressDeadlineSeconds"):
            conditions, wait = self._progress(deployment, conditions, counts, new)
        failed = next((c for rs in sets for c in rs.status.get("conditions") or [] if _failed(c)), None)
        if failed is not None:
            conditions = with_condition(
                conditions, "ReplicaFailure", True, failed["reason"], failed["message"], now, update_time=True
            )
        else:
            conditions = [item for item in conditions if item["type"] != "ReplicaFailure"]
        status: Document = {name: count for name, count in counts.items() if count}
        if collisions := deployment.status.get("collisionCount"):
            status["collisionCount"] = collisions
        if "terminatingReplicas" in deployment.status:
            status["terminatingReplicas"] = deployment.status["terminatingReplicas"]
        await self._write_status(deployment, status | {"conditions": conditions})
        return wait

    def _progress(
        self,
        deployment: Deployment,
        conditions: list[Document],
        counts: dict[str, int],
        new: ReplicaSet | None,
    ) -> tuple[list[Document], float | None]:
        """Return the conditions with the one of the progress, and the seconds until its deadline."""
        now, current = self._now(), condition(conditions, "Progressing")
        about = f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
        done = current is not None and current.get("reason") == "NewReplicaSetAvailable"
        if deployment.spec.get("paused"):
            if current is None or current.get("reason") != "DeploymentPaused":
                told = "Deployment is paused"
                conditions = _progressing(conditions, None, "DeploymentPaused", told, now)
            return conditions, None
        if current is not None and current.get("reason") == "DeploymentPaused":
            conditions = _progressing(conditions, None, "DeploymentResumed", "Deployment is resumed", now)
            current = condition(conditions, "Progressing")
        if done and counts.get("replicas", 0) == counts.get("updatedReplicas", 0):
            return conditions, None
        if rollout.is_complete(deployment, counts):
            told = f"{about} has successfully progressed."
            return _progressing(conditions, True, "NewReplicaSetAvailable", told, now), None
        if current is None and new is not None:
            told = f'Created new replica set "{new.metadata.name}"'
            conditions = _progressing(conditions, True, "NewReplicaSetCreated", told, now)
        elif done or rollout.has_progressed(deployment, counts):
            told = f"{about} is progressing."
            conditions = _progressing(conditions, True, "ReplicaSetUpdated", told, now)
        current = condition(conditions, "Progressing")
        if current is None or current.get("reason") == "ProgressDeadlineExceeded":
            return conditions, None
        limit = timedelta(seconds=min(deployment.spec["progressDeadlineSeconds"], _LONGEST_DEADLINE))
        left = (parse_time(current["lastUpdateTime"]) + limit - self._clock.now()).total_seconds()
        if left >= 0:
            return conditions, left + 1.0
        told = f"{about} has timed out progressing."
        return _progressing(conditions, False, "ProgressDeadlineExceeded", told, now), None


def _failed(item: Document) -> bool:
    return item.get("type") == "ReplicaFailure" and item.get("status") == "True"


def _progressing(
    conditions: list[Document], status: bool | None, reason: str, told: str, now: str
) -> list[Document]:
    """Return conditions with a new Progressing condition; its update time is always now."""
    text = "Unknown" if status is None else str(status)
    old = condition(conditions, "Progressing")
    since = old["lastTransitionTime"] if old is not None and old.get("status") == text else now
    new = {
        "type": "Progressing",
        "status": text,
        "lastUpdateTime": now,
        "lastTransitionTime": since,
        "reason": reason,
        "message": told,
    }
    return [*(item for item in conditions if item.get("type") != "Progressing"), new]


def _counts(deployment: Deployment, sets: list[ReplicaSet], new: ReplicaSet | None) -> dict[str, int]:
    """Return the numbers of a Deployment's status."""
    available = sum(rs.count("availableReplicas") for rs in sets)
    return {
        "observedGeneration": deployment.metadata.generation,
        "replicas": sum(rs.count("replicas") for rs in sets),
        "updatedReplicas": 0 if new is None else new.count("replicas"),
        "readyReplicas": sum(rs.count("readyReplicas") for rs in sets),
        "availableReplicas": available,
        "unavailableReplicas": max(rollout.total(sets) - available, 0),
    }


def _plain(template: Document) -> Document:
    """Return a template without the label that a ReplicaSet adds."""
    metadata = dict(template.get("metadata") or {})
    labels = {k: v for k, v in (metadata.get("labels") or {}).items() if k != HASH_LABEL}
    metadata.pop("creationTimestamp", None)
    metadata["labels"] = labels
    return {**template, "metadata": metadata}
