"""The owners of pods: pods are created when due, and again after an eviction."""

import asyncio
import copy
import logging
import random
import uuid
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

import msgspec

from koordpy.api.core import Pod
from koordpy.cluster.errors import ApiError, NotFound
from koordpy.lib.clock import Clock

from .deployments import SETTLED, Deployments
from .journal import Incarnation, Journal
from .plane import ControlPlane
from .planned import Plan, PlannedDeployment, PlannedPod

log = logging.getLogger(__name__)

Document = dict[str, Any]

_AGAIN_AFTER = 1.0
"""Seconds until an owner replaces a deleted pod."""


class Workloads:
    """Creates the pods of a plan. `seed` decides the UIDs of owners that are not simulated."""

    def __init__(
        self,
        plan: Plan,
        deployments: Deployments,
        plane: ControlPlane,
        clock: Clock,
        journal: Journal,
        seed: int,
    ) -> None:
        self._plan, self._plane, self._clock, self._journal = plan, plane, clock, journal
        self._deployments = deployments
        self._rng = random.Random(f"{seed}/owners")
        self._owners: dict[str, Document] = {}
        self._returns: dict[tuple[str, str], int] = {}
        self._later: set[asyncio.Task[None]] = set()
        self.arrivals_over = False

    async def run(self) -> None:
        """Create pods in the order of their times, and create and scale Deployments."""
        for deployment in self._plan.deployments:
            self.soon(self._run(deployment))
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
        if self._deployments.owns(pod):
            return
        if pod.outcome in ("evicted", "node-left") and pod.planned.returns:
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

    async def _run(self, deployment: PlannedDeployment) -> None:
        for step, (at, replicas) in enumerate(deployment.scale):
            await self.until(at)
            if step == 0:
                await self._deployments.create(deployment)
            else:
                await self._deployments.scale(deployment, replicas)
        await asyncio.sleep(SETTLED)
        await self._deployments.note_rejections(deployment)

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


def _reference(version: str, kind: str, name: str, uid: str) -> Document:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def _owned(document: Document, owner: Document) -> Document:
    """Return a copy of a pod with its owner, unless it names one itself."""
    document = copy.deepcopy(document)
    document["metadata"].setdefault("ownerReferences", [owner])
    return document
