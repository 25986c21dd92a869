"""The owners of pods: pods are created when due, and again after an eviction."""

import asyncio
import copy
import logging
import random
import uuid
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from koordpy.api.core import Pod
from koordpy.cluster.errors import ApiError, NotFound
from koordpy.lib.clock import Clock

from .journal import Incarnation, Journal
from .plane import ControlPlane
from .planned import Plan, PlannedDeployment, PlannedPod

log = logging.getLogger(__name__)

Document = dict[str, Any]

_AGAIN_AFTER = 1.0
"""Seconds until an owner replaces a deleted pod."""


class Workloads:
    """Creates the pods of a plan. `seed` decides the UIDs of owners that are not simulated."""

    def __init__(self, plan: Plan, plane: ControlPlane, clock: Clock, journal: Journal, seed: int) -> None:
        self._plan, self._plane, self._clock, self._journal = plan, plane, clock, journal
        self._rng = random.Random(f"{seed}/owners")
        self._owners: dict[str, Document] = {}
        self._returns: dict[tuple[str, str], int] = {}
        self._sets: dict[int, _ReplicaSet] = {}
        self._later: set[asyncio.Task[None]] = set()
        self.arrivals_over = False

    async def run(self) -> None:
        """Create pods in the order of their times, and keep Deployments at their replicas."""
        sets = [_ReplicaSet(deployment, self) for deployment in self._plan.deployments]
        self._sets = {id(item.planned.pod): item for item in sets}
        for item in sets:
            self.soon(item.run())
        for pod in self._plan.pods:
            await self.until(pod.arrival)
            await self.create(pod, _owned(pod.document, self._job(pod)))
        self.arrivals_over = True

    async def stop(self) -> None:
        """Stop creating pods."""
        for task in list(self._later):
            task.cancel()
        await asyncio.gather(*self._later, return_exceptions=True)

    @property
    def is_over(self) -> bool:
        """Whether no further pod will be created, unless one is evicted."""
        return self.arrivals_over and not self._later

    def gone(self, pod: Incarnation) -> None:
        """Handle a deleted pod."""
        owner = self._sets.get(id(pod.planned))
        if owner is not None:
            owner.lost(pod)
        elif pod.outcome in ("evicted", "node-left") and pod.planned.returns:
            self.soon(self._again(pod.planned))

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task concurrently; rejections are recorded."""

        async def note() -> None:
            try:
                await work
            except ApiError as error:
                self._journal.problems.append(str(error))

        task = asyncio.create_task(note())
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    async def until(self, moment: float) -> None:
        """Wait until a time; if it has passed, yield to other tasks."""
        await asyncio.sleep(max(moment - self._clock.monotonic(), 0.0))

    async def create(self, planned: PlannedPod, document: Document) -> Incarnation | None:
        """Create a pod; return None if it was rejected, which is recorded."""
        meta = document["metadata"]
        namespace = meta["namespace"]
        await self._plane.objects.ensure_namespace(namespace)
        known = self._journal.created(planned, namespace, meta["name"], self._clock.monotonic())
        try:
            path = f"/api/v1/namespaces/{namespace}/pods"
            await self._plane.client.send("POST", path, msgspec.json.encode(document))
        except ApiError as error:
            self._journal.pods.remove(known)
            del self._journal.alive[known.key]
            self._journal.refused.append((f"{namespace}/{meta['name']}", error.message))
            log.warning("pod %s/%s was refused: %s", namespace, meta["name"], error.message)
            return None
        return known

    async def _again(self, planned: PlannedPod) -> None:
        await asyncio.sleep(_AGAIN_AFTER)
        meta = planned.document["metadata"]
        key = meta["namespace"], meta["name"]
        self._returns[key] = self._returns.get(key, 0) + 1
        document = _owned(planned.document, self._job(planned))
        document["metadata"]["name"] = f"{meta['name']}-again-{self._returns[key]}"
        document["spec"].pop("nodeName", None)
        await self.create(planned, document)

    def _job(self, pod: PlannedPod) -> Document:
        """Return the owner of a workload's pods: a Job that does not exist itself."""
        owner = self._owners.get(pod.workload)
        if owner is None:
            owner = self._owners[pod.workload] = _reference("batch/v1", "Job", pod.workload, self.uid())
        return owner

    def uid(self) -> str:
        """Return a UID that is the same in every run."""
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    async def delete(self, pod: Incarnation, outcome: str) -> None:
        """Delete a pod immediately."""
        pod.outcome = outcome
        with suppress(NotFound):
            await self._plane.client.delete(Pod, pod.namespace, pod.name, grace_period_seconds=0)


class _ReplicaSet:
    """Simulates a Deployment and its only ReplicaSet."""

    def __init__(self, planned: PlannedDeployment, workloads: Workloads) -> None:
        self.planned, self._workloads = planned, workloads
        self._wanted = 0
        self._pods: list[Incarnation] = []
        self._numbers: Iterator[int] = iter(range(1 << 62))
        self._owner: Document = {}

    async def run(self) -> None:
        plane = self._workloads._plane
        first, _ = self.planned.scale[0]
        await self._workloads.until(first)
        deployment = await plane.objects.create(copy.deepcopy(self.planned.document))
        meta = self.planned.document["metadata"]
        name = f"{meta['name']}-{self._workloads.uid()[:8]}"
        replica_set = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": meta["namespace"],
                "ownerReferences": [
                    _reference("apps/v1", "Deployment", meta["name"], deployment["metadata"]["uid"])
                ],
            },
            "spec": self.planned.document["spec"],
        }
        replica_set["spec"] = {
            key: value
            for key, value in self.planned.document["spec"].items()
            if key in ("replicas", "selector", "template", "minReadySeconds")
        }
        stored = await plane.objects.create(replica_set)
        self._owner = _reference("apps/v1", "ReplicaSet", name, stored["metadata"]["uid"])
        for at, replicas in self.planned.scale:
            await self._workloads.until(at)
            await self._scale(replicas)

    async def _scale(self, replicas: int) -> None:
        self._wanted = replicas
        while len(self._pods) > self._wanted:
            await self._workloads.delete(self._pods.pop(), "scaled-down")
        while len(self._pods) < self._wanted:
            await self._add()

    async def _add(self) -> None:
        document = _owned(self.planned.pod.document, self._owner)
        document["metadata"]["name"] = f"{self._owner['name']}-{next(self._numbers)}"
        made = await self._workloads.create(self.planned.pod, document)
        if made is None:
            self._wanted = len(self._pods)  # a rejected pod is rejected again
        else:
            self._pods.append(made)

    def lost(self, pod: Incarnation) -> None:
        """Replace a pod that was deleted by another component."""
        if pod in self._pods:
            self._pods.remove(pod)
            self._workloads.soon(self._replace())

    async def _replace(self) -> None:
        await asyncio.sleep(_AGAIN_AFTER)
        if len(self._pods) < self._wanted:
            await self._add()


def _reference(version: str, kind: str, name: str, uid: str) -> Document:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def _owned(document: Document, owner: Document) -> Document:
    """Return a copy of a pod with its owner, unless it names one itself."""
    document = copy.deepcopy(document)
    document["metadata"].setdefault("ownerReferences", [owner])
    return document
