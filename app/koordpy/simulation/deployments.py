"""The Deployments of a scenario, run by the controllers of the embedded control plane."""

import copy
import random

from koordpy.api.core import Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.store import Store
from koordpy.embedded.workloads import WorkloadControllers
from koordpy.embedded.workloads.controller import condition
from koordpy.embedded.workloads.deployment import DeploymentController
from koordpy.embedded.workloads.objects import Deployment
from koordpy.embedded.workloads.replica_set import ReplicaSetController
from koordpy.lib.clock import Clock

from .journal import Incarnation, Journal
from .plane import ControlPlane
from .planned import PlannedDeployment

_DEPLOYMENT = resource_of(Deployment)
SETTLED = 1.0
"""Seconds after which a rejection of pods is in the status."""


class Deployments:
    """Follows the pods of planned Deployments; the controllers run only if there are any."""

    def __init__(
        self, planned: list[PlannedDeployment], plane: ControlPlane, clock: Clock, journal: Journal, seed: int
    ) -> None:
        self.planned, self._plane, self._clock, self._journal = planned, plane, clock, journal
        self._by_name = {_key(item): item for item in planned}
        self._controllers: WorkloadControllers | None = None
        self._rng = random.Random(f"{seed}/deployments")

    async def start(self, pods: Store[Pod]) -> None:
        """Start the controllers, and record the pods that they create."""
        if not self.planned:
            return
        pods.subscribe(self._created)
        self._controllers = WorkloadControllers(
            self._plane.client,
            clock=self._clock,
            rng=self._rng,
            controllers=(DeploymentController, ReplicaSetController),
        )
        await self._controllers.start()

    async def stop(self) -> None:
        """Stop the controllers."""
        if self._controllers is not None:
            await self._controllers.stop()

    def owns(self, pod: Incarnation) -> bool:
        """Return whether a pod belongs to a Deployment, which replaces it."""
        return any(item.pod is pod.planned for item in self.planned)

    async def create(self, planned: PlannedDeployment) -> None:
        """Create a Deployment with its first number of replicas."""
        document = copy.deepcopy(planned.document)
        document["spec"]["replicas"] = planned.scale[0][1]
        await self._plane.objects.create(document)

    async def scale(self, planned: PlannedDeployment, replicas: int) -> None:
        """Change the number of replicas."""
        namespace, name = _key(planned)
        patch = {"spec": {"replicas": replicas}}
        await self._plane.client.patch_raw(_DEPLOYMENT, namespace, name, patch, subresource="scale")

    async def note_rejections(self, planned: PlannedDeployment) -> None:
        """Record why pods of a Deployment cannot be created, if so."""
        namespace, name = _key(planned)
        current = await self._plane.client.get_raw(_DEPLOYMENT, namespace, name)
        failure = condition((current.get("status") or {}).get("conditions") or [], "ReplicaFailure")
        if failure is not None:
            self._journal.refused.append((f"{namespace}/{name}", str(failure.get("message", ""))))

    def _created(self, pod: Pod) -> None:
        owner = pod.metadata.controller
        if owner is None or owner.kind != "ReplicaSet":
            return
        planned = self._by_name.get((pod.metadata.namespace, owner.name.rpartition("-")[0]))
        key = pod.metadata.namespace, pod.metadata.name
        if planned is not None and key not in self._journal.alive:
            self._journal.created(planned.pod, *key, self._clock.monotonic())


def _key(planned: PlannedDeployment) -> tuple[str, str]:
    metadata = planned.document["metadata"]
    return metadata["namespace"], metadata["name"]
