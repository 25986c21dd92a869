"""How long kube-scheduler waits for filter and then prioritize, by the number of node names.

One server process on one core, plain HTTP with keep-alive as kube-scheduler speaks it, the client on the
other core; names only (`nodeCacheCapable`), in another order for each pod, as kube-scheduler's parallel
search leaves them; a fresh NodeMetric on every node. As long as kube-scheduler's own plugins score the nodes
between the two calls, koordpy scores ahead; the pause between the calls here is `PAUSE`, and a second row
shows what it is without.

The chains: the shipped one, and `full-chain.yaml` in a cluster with `RESERVATIONS` Reservations, for pods
that may use some of them and pods that may not. Where koordpy chooses the node there is filter alone.
"""

import asyncio
import contextlib
import json
import random
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench import load, machine, objects, servers
from bench.report import Result

SIZES = (500, 5_000, 15_000)
RESERVATIONS = 1_000
FULL_CHAIN = Path(__file__).parent / "full-chain.yaml"
PAUSE = 0.002
"""Seconds between filter's answer and prioritize's question; kube-scheduler takes longer for 500 nodes."""
GOALS = {500: "goal: p50 of both 2 ms at most", 5_000: "goal: p50 of both 6 ms at most"}


@dataclass(frozen=True)
class Case:
    """A server, and the pods that it is asked about."""

    label: str
    size: int
    arguments: tuple[str, ...] = ()
    reservations: int = 0
    app: str = "bench"
    pause: float = 0.0
    goal: str = ""

    @property
    def server(self) -> tuple[object, ...]:
        """What cases that share a server have in common."""
        return self.size, self.arguments, self.reservations

    @property
    def chooses(self) -> bool:
        """Whether koordpy chooses the node, so that prioritize is not called."""
        return "koordpy" in self.arguments


def _cases() -> list[Case]:
    cases = [
        Case(
            f"shipped chain, {size:,} names, {how}",
            size,
            pause=pause,
            goal="" if pause else GOALS.get(size, ""),
        )
        for size in SIZES
        for pause, how in ((PAUSE, "with a pause"), (0.0, "back to back"))
    ]
    full = ("--scheduler-config", str(FULL_CHAIN))
    for size in SIZES[:2]:
        for app, whose in (("bench", "none for the pod"), (objects.RESERVING_APP, "some for the pod")):
            label = f"full chain, {RESERVATIONS:,} reservations, {whose}, {size:,} names, back to back"
            cases.append(Case(label, size, full, RESERVATIONS, app, goal=GOALS[size]))
        label = f"full chain, {RESERVATIONS:,} reservations, koordpy chooses, {size:,} names"
        cases.append(Case(label, size, (*full, "--node-choice", "koordpy"), RESERVATIONS))
    return cases


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
        cases = _cases()
        started = _start(stack, folder, cases)
        first = 0
        for _ in range(rounds):
            for case in cases:
                server = started[case.server]
                before = machine.cpu_seconds(server.pid)
                times = uvloop.run(schedule(server, case, range(first, first + pods)))
                used = machine.cpu_seconds(server.pid) - before
                result.row(case.label, case.goal).add(**times, cpu=used / pods * 1e3)
                first += pods
    return result


@dataclass(frozen=True)
class Server:
    """A server under load."""

    url: str
    pid: int


def _start(stack: contextlib.ExitStack, folder: Path, cases: list[Case]) -> dict[tuple[object, ...], Server]:
    """Start the API server and a koordpy for each kind of server."""
    port = servers.free_port()
    names = dict.fromkeys(f"nodes-{case.size}-{case.reservations}" for case in cases)
    worlds = servers.module("worlds", str(port), *names)
    stack.enter_context(
        servers.running("worlds", worlds, f"http://127.0.0.1:{port}/readyz", folder, machine.CLIENT_CORE)
    )
    found: dict[tuple[object, ...], Server] = {}
    for case in cases:
        if case.server in found:
            continue
        bind = f"127.0.0.1:{servers.free_port()}"
        world = f"http://127.0.0.1:{port}/nodes-{case.size}-{case.reservations}"
        command = servers.koordpy(
            "serve", "--parts", "extender", "--no-leader-elect", "--controller-plugins", "-Reservation",
            "--server", world, "--extender-bind", bind, *case.arguments,
        )  # fmt: skip
        running = servers.running(
            f"koordpy-{len(found)}", command, f"http://{bind}/readyz", folder, machine.SERVER_CORE
        )
        found[case.server] = Server(f"http://{bind}", stack.enter_context(running).pid)
    return found


async def schedule(server: Server, case: Case, pods: range) -> dict[str, float]:
    """Ask for each pod what kube-scheduler asks; return quantiles in milliseconds."""
    names = [objects.node_name(i) for i in range(case.size)]
    order = random.Random(pods.start)
    asked: list[tuple[float, float]] = []
    async with load.channels(server.url, 1) as (channel,):
        for i in pods:
            order.shuffle(names)
            pod = json.dumps(waiting_pod(i, case.app), separators=(",", ":")).encode()
            question = call_of(server, "filter", pod, names)
            started = time.perf_counter()
            answer = await channel.ask(question)
            filtered = time.perf_counter() - started
            left = left_of(answer, 1 if case.chooses else case.size // 2)
            if case.chooses:
                asked.append((filtered, 0.0))
                continue
            question = call_of(server, "prioritize", pod, left)
            if case.pause:
                await asyncio.sleep(case.pause)
            started = time.perf_counter()
            answer = await channel.ask(question)
            asked.append((filtered, time.perf_counter() - started))
            if len(json.loads(answer)) != len(left):
                raise load.UnexpectedAnswer(f"prioritize answered {answer[:300]!r}")
    found = _quantiles("filter", [one for one, _ in asked])
    if not case.chooses:
        found |= _quantiles("prioritize", [two for _, two in asked])
    return found | _quantiles("both", [one + two for one, two in asked])


def call_of(server: Server, verb: str, pod: bytes, names: list[str]) -> bytes:
    """Return the bytes of a call of a verb about a pod and some nodes."""
    encoded = json.dumps(names, separators=(",", ":")).encode()
    body = b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (pod, encoded)
    return load.request(f"{server.url}/extender/{verb}", body)


def waiting_pod(i: int, app: str) -> objects.Document:
    """Return the i-th pod, with a UID of its own."""
    pod = objects.waiting_pod(i)
    pod["metadata"]["uid"] = f"{i:08x}-4a63-4c1a-8f53-1f1a2c0b5a77"
    pod["metadata"]["labels"]["app"] = app
    return pod


def left_of(answer: bytes, least: int) -> list[str]:
    """Return the nodes that passed. Raises UnexpectedAnswer when there are fewer than `least`."""
    result = json.loads(answer)
    left: list[str] = result.get("NodeNames") or []
    if result.get("Error") or len(left) < least:
        raise load.UnexpectedAnswer(f"filter answered {answer[:300]!r}")
    return left


def _quantiles(name: str, seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        name: statistics.median(ordered) * 1e3,
        f"{name}99": ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)] * 1e3,
    }
