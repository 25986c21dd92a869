"""Informers of several types on one server, on simulated time."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from koordpy.api.core import Namespace, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import KubeObject
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import JSON
from koordpy.cluster.informer import Informer
from koordpy.cluster.informers import Informers
from koordpy.cluster.selector import Selector
from koordpy.cluster.store import Store
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib import simulated_time
from koordpy.lib.http1 import Response, StreamingResponse
from koordpy.lib.simulated_time import SimulatedLoop
from koordpy.simulation.inprocess import ServerChannel


class Recorded(ServerChannel):
    """A channel that counts lists, and notes the paths of watches."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        self.watches: list[str] = []
        self.lists = 0

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        content_type: str = JSON,
        timeout: float = 30.0,
        gzip: bool = False,
    ) -> Response:
        self.lists += method == "GET"
        return await super().request(method, path, body=body, content_type=content_type)

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, timeout: float = 30.0
    ) -> AsyncIterator[StreamingResponse]:
        self.watches.append(path)
        async with super().stream(method, path, timeout=timeout) as response:
            yield response


def play(scene: Callable[[ApiServer, Recorded], Awaitable[None]]) -> None:
    async def program(loop: SimulatedLoop) -> None:
        server = ApiServer()
        await server.load()
        await scene(server, Recorded(server))

    simulated_time.run(program)


async def put(channel: ServerChannel, type_: type[KubeObject], name: str, namespace: str = "") -> None:
    document: dict[str, Any] = {"metadata": {"name": name, "labels": {"team": "the-same-for-both"}}}
    if type_ is Pod:
        document["spec"] = {"containers": [{"name": "c", "image": "i"}]}
    await Client(channel).create_raw(resource_of(type_), namespace, document)


def test_objects_of_all_types_share_equal_parts() -> None:
    async def scene(_: ApiServer, channel: Recorded) -> None:
        await put(channel, Namespace, "n")
        await put(channel, Pod, "p", "default")
        cluster = Cluster()
        pods, namespaces = cluster.store(Pod), cluster.store(Namespace)
        async with Informers(cluster, Client(channel)) as informers:
            await informers.wait_synced(10)
        pod, namespace = pods.get("default", "p"), namespaces.get("", "n")
        assert pod is not None
        assert namespace is not None
        assert pod.metadata.creation_timestamp is namespace.metadata.creation_timestamp

    play(scene)


def test_lists_come_in_pages_of_the_given_size() -> None:
    async def scene(_: ApiServer, channel: Recorded) -> None:
        for number in range(5):
            await put(channel, Pod, f"p{number}", "default")
        cluster = Cluster()
        cluster.store(Pod)
        async with Informers(cluster, Client(channel), page_size=2) as informers:
            await informers.wait_synced(10)
            assert channel.lists == 3

    play(scene)


def test_equal_seeds_watch_equally_long() -> None:
    async def scene(_: ApiServer, channel: Recorded) -> None:
        for seed in (7, 7, 8):
            cluster = Cluster()
            cluster.store(Pod)
            async with Informers(cluster, Client(channel), rng=random.Random(seed)) as informers:
                await informers.wait_synced(10)
                await asyncio.sleep(1)
        first, second, third = channel.watches
        assert first == second != third

    play(scene)


def test_no_other_objects_of_a_type_can_be_requested_while_it_is_followed() -> None:
    async def scene(_: ApiServer, channel: Recorded) -> None:
        cluster = Cluster()
        here = cluster.store(Pod, selector=Selector(fields="spec.nodeName=n1"))
        informers = Informers(cluster, Client(channel))
        async with informers:
            with pytest.raises(RuntimeError, match="request the store before the informers start"):
                cluster.store(Pod)
        assert cluster.store(Pod) is here
        async with informers:
            await informers.wait_synced(10)

    play(scene)


def test_nothing_runs_after_the_end() -> None:
    async def scene(_: ApiServer, channel: Recorded) -> None:
        def tasks() -> set[str]:
            return {task.get_name() for task in asyncio.all_tasks() if task is not asyncio.current_task()}

        cluster = Cluster()
        cluster.store(Pod)
        before = tasks()
        async with Informers(cluster, Client(channel)) as informers:
            await informers.wait_synced(10)
            assert "informer Pod" in tasks() - before
        assert tasks() == before

    play(scene)


def test_a_timeout_names_what_is_missing_and_why() -> None:
    async def scene(_: ApiServer, channel: Recorded) -> None:
        cluster = Cluster()
        for type_ in (Pod, NodeMetric, Reservation):
            cluster.store(type_)
        async with Informers(cluster, Client(channel)) as informers:
            with pytest.raises(TimeoutError) as refused:
                await informers.wait_synced(0)
            assert str(refused.value) == (
                "not synced within 0 s: NodeMetric is listing; Pod is listing; Reservation is listing"
            )
            await asyncio.sleep(0.01)
            with pytest.raises(TimeoutError) as refused:
                await informers.wait_synced(0.05)
            absent = "404 NotFound: the server could not find the requested resource"
            slo, scheduling = "/apis/slo.koordinator.sh/v1alpha1", "/apis/scheduling.koordinator.sh/v1alpha1"
            assert str(refused.value) == (
                "not synced within 0.05 s: "
                f"NodeMetric is absent: GET {slo}/nodemetrics?limit=500: {absent}; "
                f"Reservation is absent: GET {scheduling}/reservations?limit=500: {absent}"
            )

    play(scene)


def test_a_watch_that_lasts_is_no_failure_even_without_events() -> None:
    async def scene(server: ApiServer, channel: Recorded) -> None:
        pauses: list[float] = []

        async def sleep(seconds: float) -> None:
            pauses.append(seconds)

        informer = Informer(Store(Pod), Client(channel), rng=random.Random(1), sleep=sleep)
        task = asyncio.create_task(informer.run())
        for _round in range(8):
            await asyncio.sleep(60)
            server.cut_watches()
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len(pauses) == 8
        assert max(pauses) < 1

    play(scene)
