"""What the direct path gains: the same extender and webhooks behind koordpy's server and behind plain ones.

One process has one engine and four servers (`bench.direct_servers`), so that nothing but the server differs.
The servers take turns within each round, each round beginning with another one; a ratio is against the direct
path of the same round.
"""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench import load, machine, objects, servers
from bench.admission import PATH
from bench.direct_servers import WAYS
from bench.extender import Case, Server, schedule
from bench.report import Result

NAMES = {
    "direct": "direct path",
    "asgi": "plain ASGI behind koordpy's listener",
    "uvicorn": "plain ASGI behind uvicorn",
    "fastapi": "FastAPI routes behind uvicorn",
}
SIZES = (500, 5_000)
CONNECTIONS = (1, 16)
TOGETHER = 3
"""Rounds between starts of the servers: NodeMetrics, which nothing renews here, expire after 3 minutes."""


@dataclass(frozen=True)
class Load:
    """What is asked of every server in turn; `measure` returns the cells of a round."""

    label: str
    servers: dict[str, Server]
    measure: Callable[[Server, int], dict[str, float]]


def run(rounds: int = 12, pods: int = 200, seconds: float = 1.0) -> Result:
    """Measure; `pods` is how many are filtered and prioritized, `seconds` how long webhooks are called."""
    result = Result.begin(
        "direct", p50="p50, ms", p99="p99, ms", cpu="server CPU, µs", ratio="CPU / direct path"
    )
    for first in range(0, rounds, TOGETHER):
        with contextlib.ExitStack() as stack:
            machine.pin(0, machine.CLIENT_CORE)
            stack.callback(machine.unpin)
            folder = stack.enter_context(servers.folder())
            loads = [*_extender_loads(stack, folder, pods), *_webhook_loads(stack, folder, seconds)]
            for number in range(first, min(first + TOGETHER, rounds)):
                _take_turns(result, loads, number)
    return result


def _take_turns(result: Result, loads: list[Load], number: int) -> None:
    turn = number % len(WAYS)
    for one in loads:
        found = {
            way: one.measure(one.servers[way], number * len(WAYS) + i)
            for i, way in enumerate((*WAYS[turn:], *WAYS[:turn]))
        }
        for way in WAYS:
            row = result.row(f"{one.label}: {NAMES[way]}")
            row.add(**found[way], ratio=found[way]["cpu"] / found["direct"]["cpu"])


def _extender_loads(stack: contextlib.ExitStack, folder: Path, pods: int) -> list[Load]:
    def load_of(size: int) -> Load:
        case = Case("", size)

        def measure(server: Server, turn: int) -> dict[str, float]:
            before = machine.cpu_seconds(server.pid)
            first = turn * pods
            times = uvloop.run(schedule(server, case, range(first, first + pods)))
            used = machine.cpu_seconds(server.pid) - before
            return {"p50": times["both"], "p99": times["both99"], "cpu": used / pods * 1e6}

        found = _start(stack, folder, "extender", f"nodes-{size}-0")
        return Load(f"filter and prioritize, {size:,} names", found, measure)

    return [load_of(size) for size in SIZES]


def _webhook_loads(stack: contextlib.ExitStack, folder: Path, seconds: float) -> list[Load]:
    reviews = [json.dumps(objects.review(i), separators=(",", ":")).encode() for i in range(200)]
    found = _start(stack, folder, "admission", "profiles-3")

    def load_of(connections: int) -> Load:
        def measure(server: Server, _: int) -> dict[str, float]:
            requests = load.cycle([load.request(server.url + PATH, review) for review in reviews])
            work = load.apply(
                server.url, requests, connections=connections, seconds=seconds, warm_up=seconds / 5
            )
            before = machine.cpu_seconds(server.pid)
            sample = uvloop.run(work)
            used = machine.cpu_seconds(server.pid) - before
            return {
                "p50": sample.milliseconds(0.5),
                "p99": sample.milliseconds(0.99),
                "cpu": used / sample.requests * 1e6,
            }

        many = f"{connections} connection{'s' if connections != 1 else ''}"
        return Load(f"mutating webhook, {many}", found, measure)

    return [load_of(connections) for connections in CONNECTIONS]


def _start(stack: contextlib.ExitStack, folder: Path, part: str, world: str) -> dict[str, Server]:
    """Start an API server with a world, and the engine with its four servers."""
    api = servers.free_port()
    worlds = servers.running(
        f"worlds-{world}",
        servers.module("worlds", str(api), world),
        f"http://127.0.0.1:{api}/readyz",
        folder,
        machine.CLIENT_CORE,
    )
    stack.enter_context(worlds)
    ports = [servers.free_port() for _ in WAYS]
    arguments = (part, f"http://127.0.0.1:{api}/{world}", str(folder / "certs"), *map(str, ports))
    scheme = "http" if part == "extender" else "https"
    urls = dict(zip(WAYS, (f"{scheme}://127.0.0.1:{port}" for port in ports), strict=True))
    process = stack.enter_context(
        servers.running(
            f"{part}-{world}",
            servers.module("direct_servers", *arguments),
            f"{urls['direct']}/openapi.json",
            folder,
            machine.SERVER_CORE,
        )
    )
    return {way: Server(url, process.pid) for way, url in urls.items()}
