"""What the direct path gains: the same extender and webhooks behind koordpy's server and behind plain ones.

One process has one engine and four servers (`bench.direct_servers`), so that nothing but the server differs,
and the servers are called in turn (`bench.turns`).
"""

import contextlib
import itertools
import json
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

from bench import load, machine, objects, servers
from bench.admission import PATH
from bench.direct_servers import WAYS
from bench.extender import Server, call_of, left_of, waiting_pod
from bench.report import Result
from bench.turns import Way, add, compare, timed

NAMES = {
    "direct": "direct path",
    "asgi": "plain ASGI behind koordpy's listener",
    "uvicorn": "plain ASGI behind uvicorn",
    "fastapi": "FastAPI routes behind uvicorn",
}
SIZES = (500, 5_000)
CONNECTIONS = (1, 16)
IN_A_ROW = (1, 20)
"""Calls in a turn: a single one after a pause, in which others used the core, and many without a pause."""

_SETTLE = 0.002
"""Seconds after which a server has done what it does after its answer."""


def run(rounds: int = 9, turns: int = 100) -> Result:
    """Measure; in a round each server has so many turns of each kind."""
    result = Result.begin(
        "direct", p50="p50, ms", p99="p99, ms", cpu="server CPU, µs", ratio="CPU / direct path"
    )
    pods = itertools.count()
    for _ in range(rounds):  # each with new servers: NodeMetrics, which nothing renews here, expire
        with contextlib.ExitStack() as stack:
            machine.pin(0, machine.CLIENT_CORE)
            stack.callback(machine.unpin)
            folder = stack.enter_context(servers.folder())
            extenders = {size: _start(stack, folder, "extender", f"nodes-{size}-0") for size in SIZES}
            webhooks = _start(stack, folder, "admission", "profiles-3")
            for size, many in itertools.product(SIZES, IN_A_ROW):
                found = uvloop.run(_schedule(extenders[size], size, turns, many, pods))
                add(result, f"filter and prioritize, {size:,} names, {_how(many)}", found)
            for connections, many in itertools.product(CONNECTIONS, IN_A_ROW):
                found = uvloop.run(_review(webhooks, connections, turns, many))
                add(result, f"mutating webhook, {connections} at a time, {_how(many)}", found)
    return result


def _how(many: int) -> str:
    return "after a pause" if many == 1 else "without pauses"


async def _schedule(
    found: dict[str, Server], size: int, turns: int, many: int, pods: "itertools.count[int]"
) -> dict[str, dict[str, float]]:
    """Filter and prioritize, a new pod each time, as kube-scheduler does."""
    names = [objects.node_name(i) for i in range(size)]
    order = random.Random(size)

    def way_to(server: Server, channel: load.Channel) -> Way:
        async def schedule(_: int) -> float:
            return statistics.median([await schedule_one() for _ in range(many)])

        async def schedule_one() -> float:
            order.shuffle(names)
            pod = json.dumps(waiting_pod(next(pods), "bench"), separators=(",", ":")).encode()
            call = call_of(server, "filter", pod, names)
            began = time.perf_counter()
            answer = await channel.ask(call)
            waited = time.perf_counter() - began
            call = call_of(server, "prioritize", pod, left_of(answer, size // 2))
            began = time.perf_counter()
            await channel.ask(call)
            return waited + time.perf_counter() - began

        return schedule

    async with contextlib.AsyncExitStack() as stack:
        ways = {}
        for name, server in found.items():
            (channel,) = await stack.enter_async_context(load.channels(server.url, 1))
            ways[name] = way_to(server, channel)
        turns = max(turns // many, 10)
        return await compare(ways, _cpu_of(found), turns, calls=many, settle=_SETTLE)


async def _review(
    found: dict[str, Server], connections: int, turns: int, many: int
) -> dict[str, dict[str, float]]:
    """Send so many AdmissionReviews at a time, each on a connection of its own."""
    reviews = [json.dumps(objects.review(i), separators=(",", ":")).encode() for i in range(200)]

    def way_to(server: Server, channels: list[load.Channel]) -> Way:
        calls = load.cycle([load.request(server.url + PATH, review) for review in reviews])

        async def review(_: int) -> float:
            return statistics.median(
                [await timed([channel.ask(calls()) for channel in channels]) for _ in range(many)]
            )

        return review

    async with contextlib.AsyncExitStack() as stack:
        ways = {}
        for name, server in found.items():
            opened = await stack.enter_async_context(load.channels(server.url, connections))
            ways[name] = way_to(server, opened)
        return await compare(
            ways, _cpu_of(found), max(turns // many, 10), calls=connections * many, settle=_SETTLE
        )


def _cpu_of(found: dict[str, Server]) -> Callable[[], float]:
    (pid,) = {server.pid for server in found.values()}
    return lambda: machine.cpu_seconds(pid)


def _start(stack: contextlib.ExitStack, folder: Path, part: str, world: str) -> dict[str, Server]:
    """Start an API server with a world, and the engine with its four servers."""
    api = servers.free_port()
    command = servers.module("worlds", str(api), world)
    ready = f"http://127.0.0.1:{api}/readyz"
    stack.enter_context(servers.running(f"worlds-{world}", command, ready, folder, machine.CLIENT_CORE))
    ports = [servers.free_port() for _ in WAYS]
    scheme = "http" if part == "extender" else "https"
    urls = [f"{scheme}://127.0.0.1:{port}" for port in ports]
    command = servers.module(
        "direct_servers", part, f"http://127.0.0.1:{api}/{world}", str(folder / "certs"), *map(str, ports)
    )
    ready = f"{urls[WAYS.index('direct')]}/openapi.json"
    running = servers.running(f"{part}-{world}", command, ready, folder, machine.SERVER_CORE)
    process = stack.enter_context(running)
    return {NAMES[way]: Server(url, process.pid) for way, url in zip(WAYS, urls, strict=True)}
