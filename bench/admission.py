"""How many pods a second the mutating webhook decides on, and how the number of profiles matters.

One server process on one core behind HTTPS with keep-alive, the client on the other core. Servers with
different numbers of profiles take turns within each round, as do the floors: a FastAPI route and a plain
ASGI endpoint that answer as many bytes without reading the request.
"""

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench import load, machine, objects, servers
from bench.report import Result

PROFILES = (3, 200, 1000)
CONNECTIONS = (1, 16)
RIVAL = {
    (1, 3): "koord-manager 3,060/s",
    (1, 200): "koord-manager 1,320/s",
    (1, 1000): "koord-manager 404/s",
    (16, 3): "koord-manager 3,920/s",
    (16, 200): "koord-manager 1,400/s",
    (16, 1000): "koord-manager 390/s",
}
PATH = "/mutate-pod?timeout=10s"
"""As kube-apiserver calls it."""


def run(rounds: int = 5, seconds: float = 3.0) -> Result:
    """Measure; `seconds` is how long each server is under load in each round."""
    result = Result.begin(
        "admission",
        rate="requests/s",
        p50="p50, ms",
        p99="p99, ms",
        cpu="server CPU, µs",
        ratio="CPU / that with 3",
    )
    with contextlib.ExitStack() as stack:
        machine.pin(0, machine.CLIENT_CORE)
        stack.callback(machine.unpin)
        folder = stack.enter_context(servers.folder())
        ours = dict(zip(PROFILES, _start(stack, folder), strict=True))
        reviews = [json.dumps(objects.review(i), separators=(",", ":")).encode() for i in range(200)]
        size = uvloop.run(_answer_size(ours[PROFILES[0]].url, reviews[0]))
        floor = _start_floor(stack, folder, size)
        for _ in range(rounds):
            for connections in CONNECTIONS:
                cpu_of_few = 0.0
                for count, server in ours.items():
                    cells = _measure(server, PATH, reviews, connections, seconds)
                    cpu_of_few = cpu_of_few or cells["cpu"]
                    label = f"koordpy, {count:,} profiles, {_connections(connections)}"
                    row = result.row(label, RIVAL[connections, count])
                    row.add(**cells, ratio=cells["cpu"] / cpu_of_few)
                for name, path in (("a FastAPI route", "/fastapi"), ("a plain ASGI endpoint", "/asgi")):
                    row = result.row(f"floor: {name}, {_connections(connections)}")
                    row.add(**_measure(floor, path, reviews, connections, seconds))
    return result


@dataclass(frozen=True)
class Server:
    """A server under load."""

    url: str
    pid: int


def _measure(
    server: Server, path: str, reviews: list[bytes], connections: int, seconds: float
) -> dict[str, float]:
    requests = load.cycle([load.request(server.url + path, review) for review in reviews])
    work = load.apply(server.url, requests, connections=connections, seconds=seconds)
    before = machine.cpu_seconds(server.pid)
    sample = uvloop.run(work)
    used = machine.cpu_seconds(server.pid) - before
    return {
        "rate": sample.rate,
        "p50": sample.milliseconds(0.5),
        "p99": sample.milliseconds(0.99),
        "cpu": used / sample.requests * 1e6,
    }


def _start(stack: contextlib.ExitStack, folder: Path) -> list[Server]:
    """Start the API server and a koordpy for each number of profiles."""
    port = servers.free_port()
    worlds = servers.module("worlds", str(port), *(f"profiles-{count}" for count in PROFILES))
    stack.enter_context(
        servers.running("worlds", worlds, f"http://127.0.0.1:{port}/readyz", folder, machine.CLIENT_CORE)
    )
    found = []
    for count in PROFILES:
        bind = f"127.0.0.1:{servers.free_port()}"
        command = servers.koordpy(
            "serve", "--parts", "admission", "--server", f"http://127.0.0.1:{port}/profiles-{count}",
            "--admission-bind", bind, "--cert-dir", str(folder / "certs"),
        )  # fmt: skip
        running = servers.running(
            f"koordpy-{count}", command, f"https://{bind}/readyz", folder, machine.SERVER_CORE
        )
        found.append(Server(f"https://{bind}", stack.enter_context(running).pid))
    return found


def _start_floor(stack: contextlib.ExitStack, folder: Path, size: int) -> Server:
    port = servers.free_port()
    command = servers.module("floor", str(port), str(folder / "certs"), str(size))
    url = f"https://127.0.0.1:{port}"
    running = servers.running("floor", command, f"{url}/openapi.json", folder, machine.SERVER_CORE)
    return Server(url, stack.enter_context(running).pid)


async def _answer_size(url: str, review: bytes) -> int:
    """Return how long an answer is, after seeing that it is the one expected."""
    async with load.channels(url, 1) as (channel,):
        answer = await channel.ask(load.request(url + PATH, review))
    response = json.loads(answer)["response"]
    if not response.get("allowed") or not response.get("patch"):
        raise load.UnexpectedAnswer(f"{url} did not change the pod: {answer[:300]!r}")
    return len(answer)


def _connections(count: int) -> str:
    return f"{count} connection{'s' if count != 1 else ''}"
