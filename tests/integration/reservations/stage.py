"""A cluster with a stock scheduler and `koordpy serve`, both of which a test starts, stops and starts again.

The scheduler is koordpy's stand-in or kube-scheduler itself; tests see everything through the API server.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from koordpy import settings
from koordpy.api.core import Event, Namespace, Node, Pod
from koordpy.api.quantity import ZERO
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Connection
from koordpy.cluster.errors import AlreadyExists
from koordpy.cluster.informers import Informers
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.scheduler import Scheduler
from koordpy.scheduling.profiles import config as scheduler_config
from koordpy_plugins.scheduling.reservation.state.cache import ReservationCache
from tests.eventually import PATIENCE
from tests.integration.service.stage import picture
from tests.processes import serve_process

if TYPE_CHECKING:
    from tests.e2e.controlplane.plane import ControlPlane

Document = dict[str, Any]

NAMESPACE = "default"
ALLOCATED = "scheduling.koordinator.sh/reservation-allocated"
AFFINITY = "scheduling.koordinator.sh/reservation-affinity"


def profiles(**args: Any) -> Document:
    """A scheduler configuration with Reservation; `args` are more arguments of the plugin."""
    swift = {"gcIntervalSeconds": 1, "gcDurationSeconds": 1}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {
                    "multiPoint": {"enabled": [{"name": "Reservation"}]},
                    "score": {"enabled": [{"name": "Reservation", "weight": 5000}]},
                },
                "pluginConfig": [{"name": "Reservation", "args": {**swift, **args}}],
            }
        ],
    }


class Stage:
    """One cluster. `plane` is given where the scheduler is kube-scheduler, `server` where all is ours."""

    scheduler_name = "default-scheduler"
    """The only profile of the scheduler."""

    def __init__(
        self,
        access: Document,
        folder: Path,
        *,
        plane: "ControlPlane | None" = None,
        server: ApiServer | None = None,
    ) -> None:
        self._access, self._folder, self._plane = access, folder, plane
        self.server = server
        self.client = Client(Connection.find(access.get("kubeconfig"), None, access.get("server")))
        self.args: Document = {}
        """More arguments of the Reservation plugin."""
        self.processes: list[Process] = []
        self.scheduler: Scheduler | None = None

    # --- who schedules ---------------------------------------------------------------------------

    def profiles(self) -> Document:
        """Return what koordpy runs for pods."""
        return profiles(**self.args)

    def scheduler_profile(self) -> Document:
        """Return the profile of the scheduler."""
        return {"schedulerName": self.scheduler_name}

    @property
    def process(self) -> Process:
        """The `koordpy serve` that kube-scheduler calls."""
        return self.processes[0]

    async def serve(self, *, port: int = 0, parts: Sequence[str] = ("extender",), **extender: Any) -> Process:
        """Run one more `koordpy serve` in this process."""
        written = self._folder / "profiles.yaml"
        written.write_text(yaml.safe_dump(self.profiles()))
        document = {
            "client": self._access,
            "parts": list(parts),
            "debug": {"port": 0},
            "extender": {"port": port, "schedulerConfig": str(written), "leaderElect": False, **extender},
        }
        process = serve_process(settings.load(None, document))
        await process.start()
        await process.wait_ready(PATIENCE)
        self.processes.append(process)
        return process

    async def start(self, **extender: Any) -> None:
        """Run koordpy, and a scheduler that calls it."""
        await self.begin(await self.serve(**extender))

    async def begin(self, process: Process) -> None:
        """Run a scheduler that calls a `koordpy serve`."""
        url = f"{process.listeners['extender'].url}/extender"
        common = {"urlPrefix": url, "nodeCacheCapable": True}
        document = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [self.scheduler_profile()],
            "extenders": [
                {
                    **common,
                    "filterVerb": "filter",
                    "prioritizeVerb": "prioritize",
                    "preemptVerb": "preempt",
                    "weight": 1,
                },
                {**common, "bindVerb": "bind", "httpTimeout": "60s"},
            ],
        }
        if self._plane is not None:
            self._plane.start_scheduler(document)
        else:
            self.scheduler = Scheduler(scheduler_config.read(document), self.client)
            await self.scheduler.start()

    async def restart_koordpy(self, **more: Any) -> None:
        """End koordpy and start it anew where it was."""
        port = self.process.listeners["extender"].port
        await self.processes.pop(0).stop()
        await self.serve(port=port, **more)

    async def end(self) -> None:
        """Stop the scheduler."""
        if self._plane is not None:
            self._plane.stop_scheduler()
        elif self.scheduler is not None:
            await self.scheduler.stop()

    async def stop(self) -> None:
        """Stop all processes."""
        await self.end()
        while self.processes:
            await self.processes.pop().stop()

    # --- objects ---------------------------------------------------------------------------------

    async def add_namespace(self, name: str) -> None:
        """Create a namespace, unless it is there."""
        document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with suppress(AlreadyExists):
            await self.client.create_raw(resource_of(Namespace), "", document)

    async def add_node(self, name: str, cpu: str = "8") -> None:
        """Create a node."""
        allocatable = {"cpu": cpu, "memory": "32Gi", "pods": "500"}
        ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
        document = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"capacity": allocatable, "allocatable": allocatable, "conditions": [ready]},
        }
        await self.client.create_raw(resource_of(Node), "", document)

    async def add_pod(
        self,
        name: str,
        cpu: str = "1",
        affinity: Document | None = None,
        spec: Document | None = None,
        **labels: str,
    ) -> None:
        """Create a pod; with an `affinity` it has to use a reservation."""
        annotations = {} if affinity is None else {AFFINITY: json.dumps(affinity)}
        resources = {"requests": {"cpu": cpu}}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {
                "containers": [{"name": "c", "image": "registry.test/app:1", "resources": resources}],
                **(spec or {}),
            },
        }
        await self.client.create_raw(resource_of(Pod), NAMESPACE, document)

    async def reserve(self, name: str, cpu: str = "4", **spec: Any) -> None:
        """Create a Reservation for pods with the label `app: NAME`.

        `labels` and `pod` are labels and more of the spec of its template.
        """
        container = {"name": "c", "image": "registry.test/app:1", "resources": {"requests": {"cpu": cpu}}}
        document = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name},
            "spec": {
                "template": {
                    "metadata": {"labels": spec.pop("labels", {})},
                    "spec": {"containers": [container], **spec.pop("pod", {})},
                },
                "owners": [{"labelSelector": {"matchLabels": {"app": name}}}],
                **spec,
            },
        }
        await self.client.create_raw(resource_of(Reservation), "", document)

    async def pod(self, name: str) -> Pod:
        """Return a pod as it is now."""
        return await self.client.get(Pod, NAMESPACE, name)

    async def reservation(self, name: str) -> Reservation:
        """Return a Reservation as it is now."""
        return await self.client.get(Reservation, "", name)

    async def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""
        await self.client.delete(Pod, NAMESPACE, name, grace_period_seconds=0)

    async def events(self, reason: str) -> list[Event]:
        """Return the events with a reason."""
        return [event for event in await self.client.list_all(Event, NAMESPACE) if event.reason == reason]

    # --- waiting ---------------------------------------------------------------------------------

    async def until(self, holds: Callable[[], Awaitable[Any]], what: str, seconds: float = PATIENCE) -> Any:
        """Wait until something holds and return it, or fail saying what did not come about."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not (found := await holds()):
            assert asyncio.get_running_loop().time() < deadline, what
            await asyncio.sleep(0.05)
        return found

    async def node_of(self, name: str) -> str:
        """Wait until a pod is bound and return its node."""

        async def node() -> str:
            return (await self.pod(name)).spec.node_name

        found: str = await self.until(node, f"pod {name} is not bound")
        return found

    async def in_phase(self, name: str, phase: str) -> Reservation:
        """Wait until a Reservation is in a phase and return it."""

        async def there() -> Reservation | None:
            found = await self.reservation(name)
            return found if found.status.phase == phase else None

        found: Reservation = await self.until(there, f"reservation {name} is not {phase}")
        return found

    async def refusal(self, name: str) -> str:
        """Wait until a pod is found unschedulable and return why."""

        async def message() -> str:
            pod = await self.pod(name)
            assert not pod.spec.node_name, f"pod {name} is on {pod.spec.node_name}"
            return next((c.message for c in pod.status.conditions if c.reason == "Unschedulable"), "")

        found: str = await self.until(message, f"pod {name} is not found unschedulable")
        return found

    # --- what must always hold -------------------------------------------------------------------

    async def assert_memory_equals_a_rebuild(self) -> None:
        """What koordpy knows of nodes and reservations is what a fresh view of the API objects gives."""
        fresh = Cluster()
        view = fresh.shared(ReservationCache)
        assert len(fresh.nodes) == 0
        async with Informers(fresh, self.client) as informers:
            await informers.wait_synced(PATIENCE)
            ours = self.process.cluster

            async def equal() -> bool:
                return both(ours, ours.shared(ReservationCache)) == both(fresh, view)

            try:
                await self.until(equal, "")
            except AssertionError:
                assert both(ours, ours.shared(ReservationCache)) == both(fresh, view)

    async def assert_nothing_is_booked_twice(self) -> None:
        """No node has less CPU than its pods and what Reservations hold beside them."""
        pods = await self.client.list_all(Pod, NAMESPACE)
        reservations = await self.client.list_all(Reservation)
        for node in await self.client.list_all(Node):
            name = node.metadata.name
            here = [pod for pod in pods if pod.spec.node_name == name and not pod.is_terminal]
            used = sum(_cpu(pod.spec.containers[0].resources.requests) for pod in here)
            for reservation in reservations:
                if reservation.is_available and reservation.node_name == name:
                    owners = {owner.uid for owner in reservation.status.current_owners}
                    own = sum(
                        _cpu(pod.spec.containers[0].resources.requests)
                        for pod in here
                        if reservation.metadata.uid in pod.metadata.annotations.get(ALLOCATED, "")
                        or pod.metadata.uid in owners
                    )
                    used += max(_cpu(reservation.status.allocatable) - own, 0)
            assert used <= _cpu(node.status.allocatable), f"node {name}"


def both(cluster: Cluster, cache: ReservationCache) -> Document:
    """Return what is known of nodes, and of reservations by UID, so that two views can be compared."""
    reservations = {
        uid: {
            "node": info.node_name,
            "allocatable": info.allocatable,
            "allocated": {name: amount for name, amount in (info.allocated or {}).items() if amount > ZERO},
            "pods": sorted(info.assigned),
            "matchable": info.is_matchable,
            "offered": uid in cache.matchable.get(info.node_name, {}),
        }
        for uid, info in cache.infos.items()
    }
    return {"nodes": picture(cluster), "reservations": reservations, "assumed": sorted(cache.assumed)}


def _cpu(amounts: Any) -> int:
    return int(amounts.get("cpu", 0))
