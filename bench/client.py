"""What our own HTTP client gains against aiohttp: binds, watches and lists as koordpy makes them.

Everything above the HTTP client is the same (`koordpy.cluster.client`), and counts: bodies are encoded,
metrics counted, pages and events decoded. The API server is a process on the other core that has its answers
ready, over TLS. For the first rows kube-scheduler's whole bind call is measured, of two extenders that differ
in nothing but the client. The clients take turns within each round; a ratio is against our own client in the
same round.
"""

import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import uvloop

from bench import load, machine, objects, servers
from bench.aiohttp_channel import AiohttpChannel
from bench.client_peer import PAGE
from bench.extender import Server, call_of, waiting_pod
from bench.report import Result
from koordpy.api.core import Pod
from koordpy.api.meta import ObjectMeta
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Channel, Connection
from koordpy.lib import certificates

Work = Callable[[Client], Awaitable[tuple[int, list[float]]]]
"""Repeats something; returns how often, and the seconds that each took where that was measured."""


OURS, THEIRS = "our own client", "aiohttp"
NAMES = 500
"""Node names that the pods of the bind calls are filtered on."""
TOGETHER = 3
"""Rounds between starts of the servers: NodeMetrics, which nothing renews here, expire after 3 minutes."""


def run(rounds: int = 12, binds: int = 2_000, events: int = 10_000, pages: int = 20) -> Result:
    """Measure; in each round so many of each."""
    result = Result.begin("client", p50="p50, ms", p99="p99, ms", cpu="CPU, µs", ratio="CPU / our own client")
    work: dict[str, Work] = {
        "bind, one after the other": lambda client: _bind(client, binds, 1),
        "bind, 16 at a time": lambda client: _bind(client, binds, 16),
        f"list, a page of {PAGE} pods": lambda client: _list(client, pages),
        "watch, an event of a burst": lambda client: _watch(client, events, ""),
        "watch, an event every millisecond": lambda client: _watch(client, events // 10, ",0.001"),
    }
    for first in range(0, rounds, TOGETHER):
        with contextlib.ExitStack() as stack:
            machine.pin(0, machine.SERVER_CORE)
            stack.callback(machine.unpin)
            folder = stack.enter_context(servers.folder())
            access = _start(stack, folder)
            extenders = _start_extenders(stack, folder)
            ways: dict[str, Callable[[], Channel]] = {
                OURS: partial(Connection.to, access),
                THEIRS: partial(AiohttpChannel, access),
            }
            for number in range(first, min(first + TOGETHER, rounds)):
                order = (OURS, THEIRS) if number % 2 == 0 else (THEIRS, OURS)
                pods = range(number * binds // 10, (number + 1) * binds // 10)
                calls = {way: uvloop.run(_call_bind(extenders[way], pods)) for way in order}
                _add(result, "kube-scheduler's bind call", calls)
                for label, what in work.items():
                    _add(result, label, {way: uvloop.run(_measure(ways[way], what)) for way in order})
    return result


def _add(result: Result, label: str, found: dict[str, dict[str, float]]) -> None:
    for way in (OURS, THEIRS):
        row = result.row(f"{label}: {way}")
        row.add(**found[way], ratio=found[way]["cpu"] / found[OURS]["cpu"])


async def _call_bind(extender: Server, pods: range) -> dict[str, float]:
    """Filter pods and have them bound, as kube-scheduler does; only the bind calls count."""
    names = [objects.node_name(i) for i in range(NAMES)]
    seconds: list[float] = []
    used = 0.0
    async with load.channels(extender.url, 1) as (channel,):
        for i in pods:
            pod = waiting_pod(i, "bench")
            encoded = json.dumps(pod, separators=(",", ":")).encode()
            await channel.ask(call_of(extender, "filter", encoded, names))
            meta = pod["metadata"]
            body = {
                "PodName": meta["name"],
                "PodNamespace": meta["namespace"],
                "PodUID": meta["uid"],
                "Node": names[i % NAMES],
            }
            request = load.request(f"{extender.url}/extender/bind", json.dumps(body).encode())
            await asyncio.sleep(0.002)  # scoring ahead has been done by then
            before, began = machine.cpu_seconds(extender.pid), time.perf_counter()
            answer = await channel.ask(request)
            seconds.append(time.perf_counter() - began)
            await asyncio.sleep(0.001)
            used += machine.cpu_seconds(extender.pid) - before
            if json.loads(answer).get("Error"):
                raise load.UnexpectedAnswer(f"bind answered {answer[:300]!r}")
    ordered = sorted(seconds)
    return {
        "p50": statistics.median(ordered) * 1e3,
        "p99": ordered[int(len(ordered) * 0.99)] * 1e3,
        "cpu": used / len(pods) * 1e6,
    }


def _start_extenders(stack: contextlib.ExitStack, folder: Path) -> dict[str, Server]:
    """Start an API server with nodes, and an extender for each client."""
    api = servers.free_port()
    world = f"nodes-{NAMES}-0"
    command = servers.module("worlds", str(api), world)
    ready = f"http://127.0.0.1:{api}/readyz"
    stack.enter_context(servers.running("worlds", command, ready, folder, machine.CLIENT_CORE))
    found = {}
    for way, client in ((OURS, "own"), (THEIRS, "aiohttp")):
        port = servers.free_port()
        url = f"http://127.0.0.1:{port}"
        command = servers.module("bind_server", str(port), f"http://127.0.0.1:{api}/{world}", client)
        running = servers.running(client, command, f"{url}/openapi.json", folder, machine.CLIENT_CORE)
        found[way] = Server(url, stack.enter_context(running).pid)
    return found


async def _measure(connect: Callable[[], Channel], work: Work) -> dict[str, float]:
    channel = connect()
    client = Client(channel)
    await _bind(client, 50, 16)  # connections are made, and code is warm
    began = time.process_time()
    done, seconds = await work(client)
    used = time.process_time() - began
    await client.close()
    cells = {"cpu": used / done * 1e6}
    if seconds:
        ordered = sorted(seconds)
        cells["p50"] = statistics.median(ordered) * 1e3
        cells["p99"] = ordered[int(len(ordered) * 0.99)] * 1e3
    return cells


async def _bind(client: Client, count: int, at_once: int) -> tuple[int, list[float]]:
    seconds: list[float] = []
    clock = time.perf_counter
    pods = iter(range(count))
    annotations = {"scheduling.koordinator.sh/reservation-allocated": '{"name":"r","uid":"u"}'}

    async def bind_one_after_the_other() -> None:
        for i in pods:
            pod = Pod(metadata=ObjectMeta(name=f"pod-{i}", namespace="default", uid=f"uid-{i}"))
            began = clock()
            await client.bind(pod, "node-00001", annotations)
            seconds.append(clock() - began)

    await asyncio.gather(*(bind_one_after_the_other() for _ in range(at_once)))
    return count, seconds


async def _list(client: Client, count: int) -> tuple[int, list[float]]:
    seconds: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        page = await client.list_page(Pod)
        seconds.append(time.perf_counter() - began)
        assert len(page.items) == PAGE
    return count, seconds


async def _watch(client: Client, count: int, pace: str) -> tuple[int, list[float]]:
    seen = 0
    async with client.watch(Pod, resource_version="1", label_selector=f"{count}{pace}") as watch:
        while events := await watch.read(30):
            seen += len(events)
    assert seen == count, f"{seen} of {count} events came"
    return count, []


def _start(stack: contextlib.ExitStack, folder: Path) -> Access:
    """Start the API server; return how to reach it."""
    ca = certificates.ensure(folder / "certs", ["127.0.0.1"], datetime.now(UTC))
    port = servers.free_port()
    url = f"https://127.0.0.1:{port}"
    command = servers.module("client_peer", str(port), str(folder / "certs"))
    stack.enter_context(servers.running("peer", command, f"{url}/api/v1/pods", folder, machine.CLIENT_CORE))
    return Access(url, "Bearer token", ca=ca)
