"""A cluster on simulated time whose kube-scheduler calls koordpy with Coscheduling, and bare pods in gangs.

async def story(cluster: GangCluster) -> None:
    await cluster.add_node("n", cpu="6")
    await cluster.pod_group("g", 2)
    await cluster.members("g", 2)
    await cluster.until(lambda: cluster.bound("g") == 2)
play(story)
"""

import json
import random
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from koordpy import data, settings
from koordpy.compose.process import Process
from koordpy.embedded.kubelet.annotations import STOP_AFTER
from koordpy.http.server.direct import Direct
from koordpy.lib.http1 import Response
from koordpy.simulation.inprocess import EndpointCaller, ServerChannel

from .living import Document, Living, condition, live, name_of

CRDS = sorted(data.deploy("crds").glob("*.yaml"))
GANG = "gang.scheduling.koordinator.sh"
LABEL = "pod-group.scheduling.sigs.k8s.io"
QUOTA = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota"}
GATE = "pre-enqueue.koordpy.dev/Coscheduling"


class Caller(EndpointCaller):
    """Calls the koordpy that runs at present."""

    def __init__(self, origin: str, cluster: "GangCluster") -> None:
        super().__init__(origin, {})
        self._cluster = cluster

    async def request(self, *arguments: Any, **options: Any) -> Response:
        return await EndpointCaller(self.origin, self._cluster.served()).request(*arguments, **options)


class GangCluster(Living):
    """Bare pods in gangs, `default-scheduler` being kube-scheduler with koordpy as its extender.

    `args` are those of Coscheduling, `extender` settings of koordpy. `gated` pods are created with the gate
    that the webhooks give to pods of gangs.
    """

    scheduler_configuration = yaml.safe_load(
        data.deploy("scheduler", "kube-scheduler-config.yaml").read_text()
    )
    args: Document = {}
    plugins: tuple[str, ...] = ("Reservation", "Coscheduling")
    extender: Document = {}
    gated = False

    async def start_scheduler(self, **more: Any) -> None:
        await self.create("namespaces", {"metadata": {"name": "koordinator-system"}})
        await self.start_koordpy()
        await super().start_scheduler(connect=lambda origin: Caller(origin, self), **more)

    async def start_koordpy(self) -> None:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory())
        file = Path(folder) / "profiles.yaml"
        profile = {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": name} for name in self.plugins]}},
            "pluginConfig": [{"name": "Coscheduling", "args": self.args}],
        }
        document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        file.write_text(yaml.safe_dump({**document, "profiles": [profile]}))
        extender = {"schedulerConfig": str(file), "leaderElect": False, "monitor": {"period": "24h"}}
        found = settings.load(None, {"extender": {**extender, **self.extender}})
        self.koordpy = Process(
            found,
            ["extender", "reservations"],
            listens=False,
            connection=ServerChannel(self.api),
            clock=self.clock,
            rng=random.Random(6),
        )
        self._stack.push_async_callback(self.koordpy.stop)
        await self.koordpy.start()

    def served(self) -> dict[str, Direct]:
        """The endpoints of the koordpy that runs at present."""
        return {
            path: endpoint
            for routes in self.koordpy.routes.values()
            for path, endpoint in routes.hot.items()
            if isinstance(endpoint, Direct)
        }

    async def restart_koordpy(self) -> None:
        """Stop koordpy, and start it anew, with the same kube-scheduler."""
        await self.koordpy.stop()
        await self.start_koordpy()

    # --- objects ---------------------------------------------------------------------------------

    async def priority_classes(self, **values: int) -> None:
        """Create PriorityClasses."""
        for name, value in values.items():
            await self.create("priorityclasses", {"metadata": {"name": name}, "value": value})

    async def quota(self, name: str, cpu: str) -> None:
        """Create an ElasticQuota of CPUs, or change its maximum."""
        spec = {"min": {"cpu": "0"}, "max": {"cpu": cpu}}
        if self.one("elasticquotas", name):
            await self.patch("elasticquotas", name, {"spec": spec})
        else:
            await self.create("elasticquotas", {**QUOTA, "metadata": {"name": name}, "spec": spec})

    async def add_machine(self, name: str, labels: dict[str, str] | None = None, **amounts: str) -> None:
        """Add a node with these resources."""
        has = {"cpu": "16", "memory": "64Gi", "pods": "110", **amounts}
        await self.create(
            "nodes",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
                "status": {"capacity": has, "allocatable": has},
            },
        )

    async def pod_group(
        self,
        name: str,
        minimum: int,
        notes: dict[str, Any] | None = None,
        namespace: str = "default",
        **spec: Any,
    ) -> None:
        """Create a PodGroup; `notes` are gang annotations without their prefix."""
        await self.create(
            "podgroups",
            {
                "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
                "kind": "PodGroup",
                "metadata": {"name": name, "annotations": annotations(notes or {})},
                "spec": {"minMember": minimum, **spec},
            },
            namespace,
        )

    async def pod(
        self,
        name: str,
        *,
        group: str = "",
        notes: dict[str, Any] | None = None,
        stop_after: str = "",
        labels: dict[str, str] | None = None,
        namespace: str = "default",
        requests: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """Create a pod, in the gang of a PodGroup or of annotations, or in none."""
        container = {"name": "c", "image": "i:1", "command": ["sleep", "24h"]}
        container["resources"] = {"requests": requests or {"cpu": "1"}}  # type: ignore[assignment]
        if self.gated and (group or notes) and not spec.get("nodeName"):
            spec.setdefault("schedulingGates", [{"name": GATE}])
        metadata = {
            "name": name,
            "annotations": annotations(notes or {}) | ({STOP_AFTER: stop_after} if stop_after else {}),
            "labels": {**(labels or {}), **({LABEL: group} if group else {})},
        }
        await self.create(
            "pods",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": metadata,
                "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
            },
            namespace,
        )

    async def members(self, group: str, count: int, start: int = 0, **more: Any) -> list[str]:
        """Create pods of the gang of a PodGroup, and return their names."""
        names = [f"{group}-{number}" for number in range(start, start + count)]
        for name in names:
            await self.pod(name, group=group, **more)
        return names

    # --- what has become of them -----------------------------------------------------------------

    def nodes_of(self, namespace: str = "default") -> dict[str, str]:
        """The nodes of pods that have one and have not ended, by their names."""
        return {
            name_of(pod): pod["spec"]["nodeName"]
            for pod in self.all("pods", namespace)
            if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ("Succeeded", "Failed")
        }

    def bound(self, prefix: str = "", namespace: str = "default") -> list[str]:
        """The names of pods with a node that begin with a prefix."""
        return [name for name in self.nodes_of(namespace) if name.startswith(prefix)]

    def told(self, name: str) -> str:
        """What the condition PodScheduled of a pod says."""
        return str(condition(self.one("pods", name), "PodScheduled").get("message", ""))

    async def end(self, name: str, phase: str = "Succeeded", namespace: str = "default") -> None:
        """Let a pod finish."""
        await self.patch("pods", f"{name}/status", {"status": {"phase": phase}}, namespace)


def annotations(notes: dict[str, Any]) -> dict[str, str]:
    """Return gang annotations; what is no text is written as JSON."""
    return {
        f"{GANG}/{key}": value if isinstance(value, str) else json.dumps(value)
        for key, value in notes.items()
    }


def play(
    story: Callable[[Any], Awaitable[None]],
    *nodes: str,
    gated: bool = False,
    extender: Document | None = None,
    plugins: tuple[str, ...] = GangCluster.plugins,
    **args: Any,
) -> None:
    """Run a story on a cluster, with these arguments of Coscheduling."""
    chosen = {"args": args, "extender": extender or {}, "gated": gated, "plugins": plugins}
    live(story, nodes=nodes, kind=type("Chosen", (GangCluster,), chosen), crds=CRDS)
