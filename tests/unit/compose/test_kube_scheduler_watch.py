"""The process learns whether kube-scheduler gates gangs itself, on simulated time."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_name
from koordpy.api.scheme import decode
from koordpy.cluster import transformers
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.kubernetes_gangs import WORKLOAD_REF
from koordpy.compose.kube_scheduler_watch import EVERY_SECONDS, KubeSchedulerWatch
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.objects import Objects
from koordpy.lib import simulated_time
from koordpy.lib.feature_gates import FeatureGates
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop
from koordpy.settings import KubeSchedulerGangScheduling
from koordpy.simulation.inprocess import ServerChannel

Story = Callable[["World"], Awaitable[None]]


class World:
    """An API server, and a cluster with a watch."""

    def __init__(self, loop: SimulatedLoop, setting: KubeSchedulerGangScheduling) -> None:
        clock = SimulatedClock(loop, datetime(2026, 1, 1, tzinfo=UTC))
        self.api = ApiServer(clock=clock, rng=random.Random(1))
        self.client = Client(ServerChannel(self.api), rng=random.Random(2))
        self.objects = Objects(self.api.catalog, self.client)
        self.cluster = Cluster(clock)
        transformers.install(self.cluster, FeatureGates(transformers.SPECS, {WORKLOAD_REF: True}))
        self.watch = KubeSchedulerWatch(self.cluster, self.client, setting)

    async def kube_scheduler(self, *words: str) -> None:
        metadata = {
            "name": "kube-scheduler-cp",
            "namespace": "kube-system",
            "labels": {"component": "kube-scheduler"},
        }
        image = "registry.k8s.io/kube-scheduler:v1.35.3"
        container = {"name": "kube-scheduler", "image": image, "command": ["kube-scheduler", *words]}
        document: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        await self.objects.create({**document, "spec": {"containers": [container]}})

    @property
    def leaves(self) -> bool:
        gangs = self.cluster.kubernetes_gangs
        assert gangs is not None
        return gangs.left_to_kube_scheduler


def told(story: Story, setting: KubeSchedulerGangScheduling = "auto") -> None:
    async def program(loop: SimulatedLoop) -> None:
        world = World(loop, setting)
        await world.api.load()
        try:
            await story(world)
        finally:
            await world.watch.stop()

    simulated_time.run(program)


GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"


def test_gates_of_kube_schedulers_pods_decide() -> None:
    async def story(world: World) -> None:
        await world.kube_scheduler(GATES)
        await world.watch.start()
        assert world.leaves

    told(story)


def test_a_kube_scheduler_that_begins_to_gate_gangs_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        await world.watch.start()
        metadata = {"name": "p", "namespace": "d", "uid": "1"}
        spec = {"workloadRef": {"name": "job", "podGroup": "pg"}}
        pods = world.cluster.store(Pod)
        pods.apply(decode(Pod, {"metadata": metadata, "spec": spec}))
        assert [gang_name(pod) for pod in pods] == ["job:pg"]
        await world.kube_scheduler(GATES)
        await asyncio.sleep(EVERY_SECONDS + 1)
        assert world.leaves
        assert [gang_name(pod) for pod in pods] == [""]
        assert "left to kube-scheduler" in caplog.text

    told(story)


def test_the_setting_overrides_what_the_pods_show() -> None:
    async def enabled(world: World) -> None:
        await world.watch.start()
        assert world.leaves

    async def disabled(world: World) -> None:
        await world.kube_scheduler(GATES)
        await world.watch.start()
        assert not world.leaves

    told(enabled, "enabled")
    told(disabled, "disabled")
