"""The `scale` subresource of workloads of any kind, on an API server of this process."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.meta import OwnerReference
from koordpy.api.scheme import Resource, decode
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.toolkit.controller_finder import ControllerFinder
from koordpy.descheduling.toolkit.scales import Scale, Scales, Unresolved
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.lib.clock import FakeClock
from koordpy.simulation.inprocess import ServerChannel
from koordpy.testing.objects import NOW
from tests.eventually import PATIENCE

ROLLOUT = Resource("apps", "v1", "deployments", "Deployment", True, Pod)
OWNER = OwnerReference(api_version="apps/v1", kind="Deployment", name="d", uid="", controller=True)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.001)


class World:
    def __init__(self) -> None:
        self.clock = FakeClock(NOW)
        self.paths: list[str] = []
        self.fault: Fault | None = None
        self.server = ApiServer(crds=[], clock=self.clock, faults=self.seen)
        self.client = Client(ServerChannel(self.server), attempts=1)
        self.scales = Scales(self.client, self.clock)

    def seen(self, method: str, path: str) -> Fault | None:
        if method == "GET":
            self.paths.append(path.partition("?")[0])
        return self.fault if path.partition("?")[0].endswith("/scale") else None

    async def deploy(self, replicas: int) -> str:
        await self.server.load()
        labels = {"app": "d"}
        document: Mapping[str, Any] = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                },
            },
        }
        created = await self.client.create_raw(ROLLOUT, "default", document)
        return str(created["metadata"]["uid"])

    async def read(self, owner: OwnerReference = OWNER) -> Scale | None:
        with suppress(Unresolved):
            self.scales.get(owner, "default")
        await self.scales.read_wanted()
        return self.scales.get(owner, "default")


async def test_a_scale_is_read_through_discovery_and_kept_for_a_while() -> None:
    world = World()
    uid = await world.deploy(5)
    assert await world.read() == Scale(uid, 5)
    scale = "/apis/apps/v1/namespaces/default/deployments/d/scale"
    assert world.paths == ["/apis/apps/v1", scale]
    assert await world.read() == Scale(uid, 5)
    assert world.paths.count(scale) == 1
    world.clock.advance(31)
    await world.read()
    assert world.paths == ["/apis/apps/v1", scale, scale]


async def test_an_unknown_scale_is_read_in_the_background() -> None:
    world = World()
    uid = await world.deploy(5)
    with pytest.raises(Unresolved, match="not known yet"):
        world.scales.get(OWNER, "default")
    running = asyncio.create_task(world.scales.run())

    def known() -> bool:
        try:
            return world.scales.get(OWNER, "default") == Scale(uid, 5)
        except Unresolved:
            return False

    await until(known)
    running.cancel()


async def test_what_cannot_be_read_stays_usable_for_some_minutes() -> None:
    world = World()
    uid = await world.deploy(5)
    await world.read()
    world.clock.advance(299)
    assert world.scales.get(OWNER, "default") == Scale(uid, 5)
    world.clock.advance(2)
    with pytest.raises(Unresolved, match="not known yet"):
        world.scales.get(OWNER, "default")


async def test_kinds_without_a_scale_and_missing_objects_have_none() -> None:
    world = World()
    await world.deploy(5)
    job = OwnerReference(api_version="batch/v1", kind="Job", name="j")
    assert await world.read(job) is None
    missing = OwnerReference(api_version="apps/v1", kind="Deployment", name="missing")
    assert await world.read(missing) is None
    assert await world.read(OwnerReference(api_version="apps/v1", kind="Deployment", name="..")) is None


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("example.com/v1", "Foo"), ("apps/v1", "Foo"), ("a/b/c", "Foo"), ("", "Foo"), ("apps/", "Deployment")],
)
async def test_a_kind_that_is_not_served_is_an_error(api_version: str, kind: str) -> None:
    world = World()
    await world.deploy(5)
    with pytest.raises(Unresolved, match=f'no matches for kind "{kind}" in version "{api_version}"'):
        await world.read(OwnerReference(api_version=api_version, kind=kind, name="x"))


async def test_a_refused_read_is_an_error_that_says_so() -> None:
    world = World()
    await world.deploy(5)
    world.fault = Fault(status=403)
    with pytest.raises(Unresolved, match=r"the scale of Deployment default/d cannot be read: .*403"):
        await world.read()


async def test_a_lasting_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    await world.deploy(5)
    world.fault = Fault(status=403)
    for _ in range(3):
        with suppress(Unresolved):
            await world.read()
        world.clock.advance(31)
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1


async def test_the_finder_asks_for_all_workloads_at_its_start_and_checks_their_uid() -> None:
    world = World()
    await world.server.load()
    cluster = Cluster(world.clock)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    document = {"metadata": {"name": "p", "namespace": "default", "ownerReferences": [owner]}}
    pod = decode(Pod, document)
    cluster.store(Pod).apply(pod)
    finder = ControllerFinder(cluster, world.scales)
    running = asyncio.create_task(finder.run())
    await until(lambda: "/apis/batch/v1" in world.paths)

    def known() -> bool:
        try:
            return finder.workload_of(pod) is None
        except Unresolved:
            return False

    await until(known)
    running.cancel()
