"""Informers that catch up show everything written before, regardless of how far their watches lag."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ServerError
from koordpy.cluster.informers import Informers
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.lib import simulated_time
from koordpy.lib.simulated_time import SimulatedLoop
from koordpy.simulation.inprocess import ServerChannel
from tests.faults.weather import Weather


class Scene:
    """A server, a writer of pods, and informers with a watch that can be held."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server
        self.writer = Client(ServerChannel(server))
        self.lists = 0
        self.weather = Weather(server, self._sent)
        self.cluster = Cluster()
        self.pods = self.cluster.store(Pod)
        self.cluster.store(Reservation, optional=True)
        self.client = Client(self.weather, attempts=1)
        self.informers = Informers(self.cluster, self.client, page_size=2)

    def _sent(self, method: str, path: str, _: bytes) -> None:
        self.lists += method == "GET" and path.endswith("/pods")

    async def put(self, name: str) -> None:
        container = {"name": "c", "image": "i"}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [container]},
        }
        await self.writer.create_raw(resource_of(Pod), "default", document)

    async def bind(self, name: str) -> None:
        await self.writer.bind(await self.writer.get(Pod, "default", name), "n1")

    async def delete(self, name: str) -> None:
        await self.writer.delete(Pod, "default", name, grace_period_seconds=0)

    @property
    def known(self) -> dict[str, str]:
        return {pod.metadata.name: pod.spec.node_name for pod in self.pods}

    async def true(self) -> dict[str, str]:
        return {pod.metadata.name: pod.spec.node_name for pod in await self.writer.list_all(Pod, "default")}


def play(scene: Callable[[Scene], Awaitable[None]]) -> None:
    async def program(loop: SimulatedLoop) -> None:
        server = ApiServer()
        await server.load()
        it = Scene(server)
        async with it.informers as informers:
            await informers.wait_synced(10)
            await scene(it)

    simulated_time.run(program)


def test_what_a_watch_has_not_shown_is_listed_and_not_delivered_twice() -> None:
    async def scene(it: Scene) -> None:
        await it.put("a")
        await asyncio.sleep(0.1)
        it.weather.hold("pods")
        await it.bind("a")
        await it.put("b")
        await asyncio.sleep(0.1)
        assert it.known == {"a": ""}
        await it.informers.catch_up(Pod, Reservation)
        assert it.known == {"a": "n1", "b": ""}
        told: list[str] = []
        it.pods.subscribe(
            lambda pod: told.append(pod.metadata.name),
            lambda _, pod: told.append(pod.metadata.name),
            lambda pod: told.append(f"no {pod.metadata.name}"),
            replay=False,
        )
        await it.delete("b")
        it.weather.let_go("pods")
        await asyncio.sleep(0.1)
        assert told == ["no b"]
        assert it.known == {"a": "n1"}

    play(scene)


def test_what_is_deleted_while_everything_is_listed_does_not_come_back() -> None:
    async def scene(it: Scene) -> None:
        for name in ("a", "b", "c"):
            await it.put(name)
        await asyncio.sleep(0.1)
        it.weather.hold("pods")
        await it.put("d")
        second_page = asyncio.Event()
        for fault in (Fault(), Fault(), Fault(held=second_page)):  # to learn the version, the first page, ...
            it.weather.troubles.append(("GET", "/pods", fault))
        catching_up = asyncio.ensure_future(it.informers.catch_up(Pod))
        await asyncio.sleep(1)
        assert not it.weather.troubles
        assert not catching_up.done()
        await it.delete("c")  # the second page has it still: a list is of one moment
        it.weather.let_go("pods")
        await asyncio.sleep(1)
        assert it.known.keys() == {"a", "b", "d"}
        changes: list[str] = []
        it.pods.subscribe(lambda pod: changes.append(pod.metadata.name), replay=False)
        second_page.set()
        await catching_up
        assert (changes, it.known.keys()) == ([], {"a", "b", "d"})

    play(scene)


def test_applying_a_list_awaits_nothing() -> None:
    async def scene(it: Scene) -> None:
        await it.put("a")
        await asyncio.sleep(0.1)
        it.weather.hold("pods")
        await it.put("b")
        loop = asyncio.get_running_loop()
        before = loop.time()
        await it.informers.catch_up(Pod)
        assert it.known.keys() == {"a", "b"}
        assert loop.time() - before < 1  # which is the time limit of the watch

    play(scene)


def test_where_the_watch_keeps_up_nothing_is_listed() -> None:
    async def scene(it: Scene) -> None:
        async def write() -> None:
            for number in range(100):
                await it.put(f"p{number}")
                await asyncio.sleep(0.01)

        writing = asyncio.create_task(write())
        await asyncio.sleep(0.1)
        before = it.lists
        await it.informers.catch_up(Pod)
        assert it.lists - before == 1  # which is of one pod, to learn the version
        await writing

    play(scene)


def test_an_api_server_that_does_not_answer_is_reported() -> None:
    async def scene(it: Scene) -> None:
        it.weather.troubles.append(("GET", "/pods", Fault(status=500)))
        with pytest.raises(ServerError):
            await it.informers.catch_up(Pod)

    play(scene)


@pytest.mark.parametrize("seed", range(20))
def test_everything_written_before_is_known_afterwards(seed: int) -> None:
    async def scene(it: Scene) -> None:
        rng = random.Random(seed)
        for step in range(60):
            pods = await it.true()
            name = rng.choice([*pods, f"p{step}", f"p{step}"])
            if name not in pods:
                await it.put(name)
            elif pods[name] or rng.random() < 0.5:
                await it.delete(name)
            else:
                await it.bind(name)
            [act] = rng.choices(
                (it.weather.hold, it.weather.let_go, it.weather.say_again, None), (2, 2, 1, 3)
            )
            if act is not None:
                act("pods")
            await asyncio.sleep(rng.choice((0.0, 0.0, 0.1)))
            if rng.random() < 0.3:
                pods = await it.true()
                await it.informers.catch_up(Pod)
                # Deleted pods may still be known: that allocates nothing.
                assert it.known.items() >= pods.items()
        it.weather.clear_up()
        await asyncio.sleep(1)
        assert it.known == await it.true()

    play(scene)
