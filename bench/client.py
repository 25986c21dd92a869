"""What our own HTTP client gains against aiohttp: binds, watches and lists as koordpy makes them.

Everything above the HTTP client is the same (`koordpy.cluster.client`), and counts: bodies are encoded,
metrics counted, pages and events decoded. The API server is a process on the other core that has its answers
ready, over TLS. For the first rows kube-scheduler's whole bind call is measured, of two extenders that differ
in nothing but the client. The clients take turns, call by call (`bench.turns`).
"""

import contextlib
import itertools
import json
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
from bench.turns import Way, add, compare, timed
from koordpy.api.core import Pod
from koordpy.api.meta import ObjectMeta
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.lib import certificates

Do = Callable[[Client, int], Awaitable[float]]
"""Does the turn of a number with a client; returns the seconds that it took."""

OURS, THEIRS = "our own client", "aiohttp"
NAMES = 500
"""Node names that the pods of the bind calls are filtered on."""

_SETTLE = 0.002
"""Seconds after which an extender has done what it does after its answer."""


def run(rounds: int = 9, turns: int = 100) -> Result:
    """Measure; in a round each client has so many turns of each kind (fewer of long ones)."""
    result = Result.begin("client", p50="p50, ms", p99="p99, ms", cpu="CPU, µs", ratio="CPU / our own client")
    pods = itertools.count()
    for _ in range(rounds):  # each with new servers: NodeMetrics, which nothing renews here, expire
        with contextlib.ExitStack() as stack:
            machine.pin(0, machine.SERVER_CORE)
            stack.callback(machine.unpin)
            folder = stack.enter_context(servers.folder())
            access = _start(stack, folder)
            extenders = _start_extenders(stack, folder)
            add(result, "kube-scheduler's bind call", uvloop.run(_call_bind(extenders, turns, pods)))
            uvloop.run(_call_api_server(result, access, turns))
    return result


async def _call_api_server(result: Result, access: Access, turns: int) -> None:
    clients = {OURS: Client(Connection.to(access)), THEIRS: Client(AiohttpChannel(access))}

    async def measure(
        label: str, do: Callable[[Client, int], Awaitable[float]], turns: int, calls: int
    ) -> None:
        ways: dict[str, Way] = {name: partial(do, client) for name, client in clients.items()}
        add(result, label, await compare(ways, time.process_time, turns, calls=calls))

    for client in clients.values():
        await _bind(64, client, 0)  # connections are made, and code is warm
    await measure("bind, one at a time", partial(_bind, 1), turns * 5, 1)
    await measure("bind, 16 at a time", partial(_bind, 16), turns, 16)
    await measure(f"list, a page of {PAGE} pods", _list, turns // 5, 1)
    await measure("watch, an event of a burst", partial(_watch, 1_000, ""), turns // 5, 1_000)
    await measure("watch, an event every ms", partial(_watch, 100, ",0.001"), turns // 10, 100)
    for client in clients.values():
        await client.close()


async def _bind(at_once: int, client: Client, turn: int) -> float:
    annotations = {"scheduling.koordinator.sh/reservation-allocated": '{"name":"r","uid":"u"}'}
    pods = [
        Pod(metadata=ObjectMeta(name=f"pod-{turn}-{i}", namespace="default", uid=f"uid-{turn}-{i}"))
        for i in range(at_once)
    ]
    return await timed([client.bind(pod, "node-00001", annotations) for pod in pods])


async def _list(client: Client, _: int) -> float:
    began = time.perf_counter()
    page = await client.list_page(Pod)
    assert len(page.items) == PAGE
    return time.perf_counter() - began


async def _watch(count: int, pace: str, client: Client, _: int) -> float:
    seen, began = 0, time.perf_counter()
    async with client.watch(Pod, resource_version="1", label_selector=f"{count}{pace}") as watch:
        while events := await watch.read(30):
            seen += len(events)
    assert seen == count, f"{seen} of {count} events came"
    return (time.perf_counter() - began) / count


async def _call_bind(
    extenders: dict[str, Server], turns: int, pods: "itertools.count[int]"
) -> dict[str, dict[str, float]]:
    """Filter pods, then have them bound, as kube-scheduler does; only the bind calls count."""
    names = [objects.node_name(i) for i in range(NAMES)]

    async def filtered(extender: Server, channel: load.Channel) -> bytes:
        i = next(pods)
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
        return load.request(f"{extender.url}/extender/bind", json.dumps(body).encode())

    async with contextlib.AsyncExitStack() as stack:
        ways: dict[str, Way] = {}
        for name, extender in extenders.items():
            (channel,) = await stack.enter_async_context(load.channels(extender.url, 1))
            calls = [await filtered(extender, channel) for _ in range(turns)]
            ways[name] = partial(_call, channel, calls)
        pids = [extender.pid for extender in extenders.values()]
        return await compare(ways, lambda: sum(map(machine.cpu_seconds, pids)), turns, settle=_SETTLE)


async def _call(channel: load.Channel, calls: list[bytes], turn: int) -> float:
    began = time.perf_counter()
    answer = await channel.ask(calls[turn])
    waited = time.perf_counter() - began
    if json.loads(answer).get("Error"):
        raise load.UnexpectedAnswer(f"bind answered {answer[:300]!r}")
    return waited


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


def _start(stack: contextlib.ExitStack, folder: Path) -> Access:
    """Start the API server; return how to reach it."""
    ca = certificates.ensure(folder / "certs", ["127.0.0.1"], datetime.now(UTC))
    port = servers.free_port()
    url = f"https://127.0.0.1:{port}"
    command = servers.module("client_peer", str(port), str(folder / "certs"))
    stack.enter_context(servers.running("peer", command, f"{url}/api/v1/pods", folder, machine.CLIENT_CORE))
    return Access(url, "Bearer token", ca=ca)
