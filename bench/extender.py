"""How long kube-scheduler waits for filter and then prioritize, by the number of node names.

One server process on one core, plain HTTP with keep-alive as kube-scheduler speaks it, the client on the
other core; names only (`nodeCacheCapable`), the shipped plugins, a fresh NodeMetric on every node. As long as
kube-scheduler's own plugins score the nodes between the two calls, koordpy scores ahead; the pause between
the calls here is `PAUSE`, and a second row shows what it is without.
"""

import asyncio
import contextlib
import json
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench import load, machine, objects, servers
from bench.report import Result

SIZES = (500, 5_000, 15_000)
PAUSE = 0.002
"""Seconds between filter's answer and prioritize's question; kube-scheduler takes longer for 500 nodes."""
GOALS = {500: "goal: p50 of both 2 ms at most", 5_000: "goal: p50 of both 6 ms at most"}


def run(rounds: int = 5, pods: int = 100) -> Result:
    """Measure; `pods` is how many are filtered and prioritized in each round."""
    result = Result.begin(
        "extender",
        filter="filter p50, ms",
        filter99="p99",
        prioritize="prioritize p50, ms",
        prioritize99="p99",
        both="both p50, ms",
        both99="p99",
        cpu="server CPU for both, ms",
    )
    with contextlib.ExitStack() as stack:
        machine.pin(0, machine.CLIENT_CORE)
        stack.callback(machine.unpin)
        folder = stack.enter_context(servers.folder())
        ours = dict(zip(SIZES, _start(stack, folder), strict=True))
        first = 0
        for _ in range(rounds):
            for size, server in ours.items():
                for pause, how in ((PAUSE, "with a pause"), (0.0, "back to back")):
                    before = machine.cpu_seconds(server.pid)
                    times = uvloop.run(_schedule(server, size, range(first, first + pods), pause))
                    used = machine.cpu_seconds(server.pid) - before
                    row = result.row(f"{size:,} names, {how}", GOALS.get(size, "") if not pause else "")
                    row.add(**times, cpu=used / pods * 1e3)
                    first += pods
    return result


@dataclass(frozen=True)
class Server:
    """A server under load."""

    url: str
    pid: int


def _start(stack: contextlib.ExitStack, folder: Path) -> list[Server]:
    """Start the API server and a koordpy for each size of cluster."""
    port = servers.free_port()
    worlds = servers.module("worlds", str(port), *(f"nodes-{size}" for size in SIZES))
    stack.enter_context(
        servers.running("worlds", worlds, f"http://127.0.0.1:{port}/readyz", folder, machine.CLIENT_CORE)
    )
    found = []
    for size in SIZES:
        bind = f"127.0.0.1:{servers.free_port()}"
        command = servers.koordpy(
            "serve", "--doors", "extender", "--server", f"http://127.0.0.1:{port}/nodes-{size}",
            "--extender-bind", bind,
        )  # fmt: skip
        running = servers.running(
            f"koordpy-{size}", command, f"http://{bind}/readyz", folder, machine.SERVER_CORE
        )
        found.append(Server(f"http://{bind}", stack.enter_context(running).pid))
    return found


async def _schedule(server: Server, size: int, pods: range, pause: float) -> dict[str, float]:
    """Ask for each pod what kube-scheduler asks; return quantiles in milliseconds."""
    names = json.dumps([objects.node_name(i) for i in range(size)], separators=(",", ":")).encode()
    asked: list[tuple[float, float]] = []
    async with load.channels(server.url, 1) as (channel,):
        for i in pods:
            pod = json.dumps(_pod(i), separators=(",", ":")).encode()
            body = b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, names)
            question = load.request(f"{server.url}/extender/filter", body)
            started = time.perf_counter()
            answer = await channel.ask(question)
            filtered = time.perf_counter() - started
            left = _left(answer)
            kept = json.dumps(left, separators=(",", ":")).encode()
            body = b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, kept)
            question = load.request(f"{server.url}/extender/prioritize", body)
            if pause:
                await asyncio.sleep(pause)
            started = time.perf_counter()
            answer = await channel.ask(question)
            asked.append((filtered, time.perf_counter() - started))
            if len(json.loads(answer)) != len(left):
                raise load.UnexpectedAnswer(f"prioritize answered {answer[:300]!r}")
    return {
        **_quantiles("filter", [one for one, _ in asked]),
        **_quantiles("prioritize", [two for _, two in asked]),
        **_quantiles("both", [one + two for one, two in asked]),
    }


def _pod(i: int) -> dict[str, object]:
    pod = objects.waiting_pod(i)
    pod["metadata"]["uid"] = f"{i:08x}-4a63-4c1a-8f53-1f1a2c0b5a77"
    return pod


def _left(answer: bytes) -> list[str]:
    """Return the nodes that passed. Raises UnexpectedAnswer when that is fewer than half of them."""
    result = json.loads(answer)
    left: list[str] = result.get("NodeNames") or []
    if result.get("Error") or len(left) <= len(result.get("FailedNodes") or {}):
        raise load.UnexpectedAnswer(f"filter answered {answer[:300]!r}")
    return left


def _quantiles(name: str, seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        name: statistics.median(ordered) * 1e3,
        f"{name}99": ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)] * 1e3,
    }
