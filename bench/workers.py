"""What a second worker is worth: one process and two behind one port, some hundred connections.

Two servers on the same cores, one with `--workers 2`, take turns within each round. On a machine with as many
cores as workers the client shares a core with one of them, so what the ratio can reach there is below two;
processor time a request says whether a worker costs more than a process of its own.
"""

import contextlib
import json
from pathlib import Path

import uvloop

from bench import admission, load, machine, objects, servers
from bench.report import Result

CONNECTIONS = (4, 300)
PROFILES = 3
WORKERS = (1, 2)


def run(rounds: int = 5, seconds: float = 3.0) -> Result:
    """Measure; `seconds` is how long each server is under load in each round."""
    result = Result.begin(
        "workers", rate="requests/s", p99="p99, ms", cpu="server CPU, µs", share="least busy worker, share"
    )
    reviews = [json.dumps(objects.review(i), separators=(",", ":")).encode() for i in range(200)]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(servers.folder())
        started = {count: _start(stack, folder, count) for count in WORKERS}
        for _ in range(rounds):
            for connections in CONNECTIONS:
                for count, server in started.items():
                    row = result.row(f"{count} worker{'s' if count > 1 else ''}, {connections} connections")
                    row.add(**_measure(server, reviews, connections, seconds))
    return result


def _measure(
    server: admission.Server, reviews: list[bytes], connections: int, seconds: float
) -> dict[str, float]:
    pids = _serving(server.pid)
    requests = load.cycle([load.request(server.url + admission.PATH, review) for review in reviews])
    before = [machine.cpu_seconds(pid) for pid in pids]
    sample = uvloop.run(load.apply(server.url, requests, connections=connections, seconds=seconds))
    used = [machine.cpu_seconds(pid) - then for pid, then in zip(pids, before, strict=True)]
    return {
        "rate": sample.rate,
        "p99": sample.milliseconds(0.99),
        "cpu": sum(used) / sample.requests * 1e6,
        "share": min(used) / sum(used),
    }


def _serving(pid: int) -> list[int]:
    """Return the processes that serve: the workers, or the process itself where it has none."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children] or [pid]


def _start(stack: contextlib.ExitStack, folder: Path, count: int) -> admission.Server:
    world, bind = servers.free_port(), f"127.0.0.1:{servers.free_port()}"
    name = f"profiles-{PROFILES}"
    command = servers.module("worlds", str(world), name)
    stack.enter_context(
        servers.running(f"world-{count}", command, f"http://127.0.0.1:{world}/readyz", folder)
    )
    command = servers.koordpy(
        "serve", "--doors", "admission", "--server", f"http://127.0.0.1:{world}/{name}",
        "--workers", str(count), "--admission-bind", bind, "--cert-dir", str(folder / f"certs-{count}"),
    )  # fmt: skip
    running = servers.running(f"koordpy-{count}", command, f"https://{bind}/readyz", folder)
    return admission.Server(f"https://{bind}", stack.enter_context(running).pid)
