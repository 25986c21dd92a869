"""A control plane with a scheduler that a test starts and stops: koordpy's embedded one, or the real one.

Tests see both through the API server and through extenders only, so the suite runs unchanged on either;
where they differ, the embedded one is wrong.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from koordpy.api.core import Event, Node, Pod, PodDisruptionBudget, PriorityClass
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError
from koordpy.embedded.scheduler import Scheduler
from koordpy.scheduling.profiles import config as scheduler_config
from tests.eventually import PATIENCE

if TYPE_CHECKING:
    from tests.e2e.controlplane.plane import ControlPlane

Document = dict[str, Any]

NAMESPACE = "default"


class Stage:
    """One cluster. `plane` is given where the scheduler is kube-scheduler."""

    def __init__(self, client: Client, plane: "ControlPlane | None" = None) -> None:
        self.client, self._plane = client, plane
        self.scheduler: Scheduler | None = None

    # --- the scheduler ---------------------------------------------------------------------------

    async def start(self, *extenders: Document, **fields: Any) -> None:
        """Start the scheduler with these extenders; `fields` go into the configuration as they are."""
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "default-scheduler"}],
            **({"extenders": list(extenders)} if extenders else {}),
            **fields,
        }
        if self._plane is not None:
            self._plane.start_scheduler(document)
            return
        self.scheduler = Scheduler(scheduler_config.read(document), self.client)
        await self.scheduler.start()

    async def stop(self) -> None:
        """Stop the scheduler in the middle of whatever it does."""
        if self._plane is not None:
            if self._plane.scheduler is not None:
                self._plane.scheduler.kill()
                self._plane.stop_scheduler()
        elif self.scheduler is not None:
            await self.scheduler.stop()
            self.scheduler = None

    # --- objects ---------------------------------------------------------------------------------

    async def add_node(
        self, name: str, cpu: str = "8", labels: dict[str, str] | None = None, **amounts: str
    ) -> None:
        """Create a node; further amounts are extended resources, with `_` for `.` and `__` for `/`."""
        extended = {key.replace("__", "/").replace("_", "."): amount for key, amount in amounts.items()}
        allocatable = {"cpu": cpu, "memory": "32Gi", "pods": "500", **extended}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        document = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "status": {"capacity": allocatable, "allocatable": allocatable, "conditions": [ready]},
        }
        await self.client.create_raw(resource_of(Node), "", document)

    async def add_pod(
        self,
        name: str,
        cpu: str = "100m",
        limits: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Create a pod of one container."""
        resources = {"requests": {"cpu": cpu, **(limits or {})}, "limits": limits or {}}
        container = {"name": "main", "image": "registry.test/app:1", "resources": resources}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"containers": [container], **spec},
        }
        await self.client.create_raw(resource_of(Pod), NAMESPACE, document)

    async def add_priority(self, name: str, value: int, **fields: Any) -> None:
        """Create a PriorityClass."""
        document = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            **fields,
        }
        await self.client.create_raw(resource_of(PriorityClass), "", document)

    async def add_budget(self, name: str, labels: dict[str, str], allowed: int) -> None:
        """Create a PodDisruptionBudget with a status, which no controller writes here."""
        document = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": labels}, "minAvailable": 1},
        }
        await self.client.create_raw(resource_of(PodDisruptionBudget), NAMESPACE, document)
        status = {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
        await self.client.patch_status(PodDisruptionBudget, NAMESPACE, name, {"status": status})

    async def pod(self, name: str) -> Pod:
        """Return a pod as it is now."""
        return await self.client.get(Pod, NAMESPACE, name)

    async def pods(self) -> list[Pod]:
        """Return all pods."""
        return await self.client.list_all(Pod, NAMESPACE)

    async def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""
        await self.client.delete(Pod, NAMESPACE, name, grace_period_seconds=0)

    async def bind(self, args: Document) -> Document:
        """Bind as an extender that is asked to: the answer of its bind verb."""
        pod = await self.pod(args["PodName"])
        try:
            await self.client.bind(pod, args["Node"])
        except ApiError as error:
            return {"Error": str(error)}
        return {"Error": ""}

    async def events(self, reason: str) -> list[Event]:
        """Return the events with a reason."""
        return [event for event in await self.client.list_all(Event, NAMESPACE) if event.reason == reason]

    # --- waiting ---------------------------------------------------------------------------------

    async def node_of(self, name: str, seconds: float = PATIENCE) -> str:
        """Wait until a pod is bound and return its node."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            pod = await self.pod(name)
            if pod.spec.node_name:
                return pod.spec.node_name
            assert asyncio.get_running_loop().time() < deadline, f"pod {name} is not bound: {pod.status}"
            await asyncio.sleep(0.02)

    async def gone(self, *names: str, seconds: float = PATIENCE) -> None:
        """Wait until pods do not exist any more."""
        deadline = asyncio.get_running_loop().time() + seconds
        while left := {pod.metadata.name for pod in await self.pods()} & set(names):
            assert asyncio.get_running_loop().time() < deadline, f"pods {sorted(left)} are still there"
            await asyncio.sleep(0.02)

    async def nominated(self, name: str, node_name: str, seconds: float = PATIENCE) -> Pod:
        """Wait until a pod is promised a node (empty: none) and return the pod."""
        deadline = asyncio.get_running_loop().time() + seconds
        while (pod := await self.pod(name)).status.nominated_node_name != node_name:
            assert asyncio.get_running_loop().time() < deadline, f"pod {name} has {pod.status}"
            await asyncio.sleep(0.02)
        return pod

    async def all_bound(self, count: int, seconds: float = PATIENCE) -> list[Pod]:
        """Wait until so many pods exist and all are bound; return them."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            pods = await self.pods()
            bound = [pod for pod in pods if pod.spec.node_name]
            if len(bound) == len(pods) == count:
                return bound
            assert asyncio.get_running_loop().time() < deadline, f"{len(bound)} of {count} pods are bound"
            await asyncio.sleep(0.05)

    async def all_events(self, reason: str, seconds: float = PATIENCE) -> list[Event]:
        """Wait until there are events with a reason and return them."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not (events := await self.events(reason)):
            assert asyncio.get_running_loop().time() < deadline, f"there is no event {reason}"
            await asyncio.sleep(0.05)
        return events

    async def refusal_with(self, name: str, text: str, seconds: float = PATIENCE) -> str:
        """Wait until a pod is refused with a text in the message and return the message."""
        deadline = asyncio.get_running_loop().time() + seconds
        while text not in (message := await self.refusal(name)):
            assert asyncio.get_running_loop().time() < deadline, f"pod {name} is told {message!r}"
            await asyncio.sleep(0.05)
        return message

    async def refusal(self, name: str, reason: str = "Unschedulable", seconds: float = PATIENCE) -> str:
        """Wait until a pod's PodScheduled condition is False for a reason and return the message."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            pod = await self.pod(name)
            assert not pod.spec.node_name, f"pod {name} is bound to {pod.spec.node_name}"
            for condition in pod.status.conditions:
                if (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", reason):
                    return condition.message
            assert asyncio.get_running_loop().time() < deadline, f"pod {name} has {pod.status.conditions}"
            await asyncio.sleep(0.02)


async def eventually(holds: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait until something holds, or fail."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < deadline, "it did not come to hold in time"
        await asyncio.sleep(0.02)
