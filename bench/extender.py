"""How long kube-scheduler waits for filter and then prioritize, by the number of node names.

One server process on one core, plain HTTP with keep-alive as kube-scheduler speaks it, the client on the
other core; names only (`nodeCacheCapable`), in another order for each pod, as kube-scheduler's parallel
search leaves them; a fresh NodeMetric on every node. As long as kube-scheduler's own plugins score the nodes
between the two calls, koordpy scores ahead; the pause between the calls here is `PAUSE`, and a second row
shows what it is without.

The chains: koordpy's shipped one, and `full-chain.yaml`, Koordinator's nine plugins, in a cluster with
`RESERVATIONS` Reservations, NUMA nodes, devices and quotas (`bench.numa_objects`), for pods that may use some
of the Reservations, pods that may not, and pods with GPUs and CPUs of their own. Where koordpy chooses the
node there is filter alone, and each pod differs from the others, so that none shares a pass over the nodes.
"""

import asyncio
import contextlib
import json
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench import load, machine, numa_objects, objects, servers
from bench.report import Result

SIZES = (500, 5_000, 15_000)
RESERVATIONS = 1_000
FULL_CHAIN = Path(__file__).parent / "full-chain.yaml"
PAUSE = 0.002
"""Seconds between filter's answer and prioritize's question; kube-scheduler takes longer for 500 nodes."""
GOALS = {500: "goal: p50 of both 2 ms at most", 5_000: "goal: p50 of both 6 ms at most"}
FULL_GOALS = {500: "goal: p50 of both 3 ms at most", 5_000: "goal: p50 of both 10 ms at most"}
NUMA_SIZE = 5_000
NUMA_GOAL = "goal: p50 of both 15 ms at most"

Make = Callable[[int], objects.Document]


def reserving_pod(i: int) -> objects.Document:
    """A pod that a tenth of the Reservations are for."""
    pod = numa_objects.waiting_pod(i)
    pod["metadata"]["labels"]["app"] = objects.RESERVING_APP
    return pod


def unlike_pod(i: int) -> objects.Document:
    """A pod that requests what no other does, and that no Reservation is for."""
    return _unlike(numa_objects.waiting_pod(i), i)


def unlike_numa_pod(i: int) -> objects.Document:
    """Do the same with 4 GPUs and 32 CPUs."""
    return _unlike(numa_objects.numa_pod(i), i)


def _unlike(pod: objects.Document, i: int) -> objects.Document:
    for amounts in pod["spec"]["containers"][0]["resources"].values():
        amounts["memory"] = f"{200 * 1024 + i % 4096}Ki"
    return pod


@dataclass(frozen=True)
class Case:
    """A server, and the pods that it is asked about."""

    label: str
    size: int
    arguments: tuple[str, ...] = ()
    make: Make = objects.waiting_pod
    world: str = "nodes"
    reservations: int = 0
    pause: float = 0.0
    goal: str = ""

    @property
    def server(self) -> tuple[object, ...]:
        """What cases that share a server have in common."""
        return self.size, self.arguments, self.world_name

    @property
    def world_name(self) -> str:
        """The cluster of the server, one of `bench.worlds`."""
        return f"{self.world}-{self.size}-{self.reservations}"

    @property
    def chooses(self) -> bool:
        """Whether koordpy chooses the node, so that prioritize is not called."""
        return "koordpy" in self.arguments


def _shipped_cases() -> list[Case]:
    return [
        Case(
            f"shipped chain, {size:,} names, {how}",
            size,
            pause=pause,
            goal="" if pause else GOALS.get(size, ""),
        )
        for size in SIZES
        for pause, how in ((PAUSE, "with a pause"), (0.0, "back to back"))
    ]


def _full_cases() -> list[Case]:
    """Return the cases of the full chain."""
    chain = ("--scheduler-config", str(FULL_CHAIN))
    chooses = (*chain, "--node-choice", "koordpy")
    what = f"nine plugins, {RESERVATIONS:,} reservations"

    def case(label: str, size: int, arguments: tuple[str, ...], make: Make, goal: str) -> Case:
        label = f"{what}, {label}, {size:,} names"
        return Case(label, size, arguments, make, "numa", RESERVATIONS, goal=goal)

    cases = []
    for size, goal in FULL_GOALS.items():
        cases += [
            case("none for the pod", size, chain, numa_objects.waiting_pod, goal),
            case("some for the pod", size, chain, reserving_pod, goal),
            case("none for the pod, koordpy chooses", size, chooses, unlike_pod, goal),
        ]
    asks = "a pod with 4 GPUs and 32 CPUs of its own"
    return [
        *cases,
        case(asks, NUMA_SIZE, chain, numa_objects.numa_pod, NUMA_GOAL),
        case(f"{asks}, koordpy chooses", NUMA_SIZE, chooses, unlike_numa_pod, NUMA_GOAL),
    ]


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
    for cases in (_shipped_cases(), _full_cases()):
        _measure(result, cases, rounds, pods)
    return result


def _measure(result: Result, cases: list[Case], rounds: int, pods: int) -> None:
    """Measure cases with servers of their own: NodeMetrics, which nothing renews here, expire."""
    with contextlib.ExitStack() as stack:
        machine.pin(0, machine.CLIENT_CORE)
        stack.callback(machine.unpin)
        folder = stack.enter_context(servers.folder())
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


@dataclass(frozen=True)
class Server:
    """A server under load."""

    url: str
    pid: int


def _start(stack: contextlib.ExitStack, folder: Path, cases: list[Case]) -> dict[tuple[object, ...], Server]:
    """Start the API server and a koordpy for each kind of server."""
    port = servers.free_port()
    names = dict.fromkeys(case.world_name for case in cases)
    worlds = servers.module("worlds", str(port), *names)
    stack.enter_context(
        servers.running("worlds", worlds, f"http://127.0.0.1:{port}/readyz", folder, machine.CLIENT_CORE)
    )
    found: dict[tuple[object, ...], Server] = {}
    for case in cases:
        if case.server in found:
            continue
        bind = f"127.0.0.1:{servers.free_port()}"
        world = f"http://127.0.0.1:{port}/{case.world_name}"
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
            pod = json.dumps(with_uid(case.make(i), i), separators=(",", ":")).encode()
            question = call_of(server, "filter", pod, names)
            started = time.perf_counter()
            answer = await channel.ask(question)
            filtered = time.perf_counter() - started
            left = left_of(answer, 1 if case.chooses else case.size // 4)
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


def with_uid(pod: objects.Document, i: int) -> objects.Document:
    """Return the i-th pod with a UID of its own."""
    pod["metadata"]["uid"] = f"{i:08x}-4a63-4c1a-8f53-1f1a2c0b5a77"
    return pod


def waiting_pod(i: int, app: str) -> objects.Document:
    """Return the i-th small pod, with a UID of its own."""
    pod = with_uid(objects.waiting_pod(i), i)
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
