"""Processor time that one pod costs koordpy where it chooses the node, without a control plane around it.

`python -m bench.pod_cost [CHECKOUT...] [--nodes 1000 5000] [--kinds ...] [--chains ...] [--rounds 3]`

This process lists a cluster (`bench.worlds`) over TLS, and is its kube-scheduler: for each waiting pod it
calls filter with as many names as kube-scheduler does, then bind, and filters the next pod meanwhile. The
binding that koordpy writes is shown by the watch of pods. So a pod causes what it causes on a real control
plane (`bench.pod_kinds`), with nothing else that is busy. Checkouts of this repository take turns in each
round; their servers run beside each other, so that what else the machine does concerns all of them.

With `--wait` the process ids of the servers are printed, and time is left to attach a profiler.
"""

import argparse
import asyncio
import itertools
import json
import random
import ssl
import statistics
import tempfile
from collections import deque
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from bench import load, machine, objects, servers, worlds
from bench.extender import FULL_CHAIN, left_of, with_uid
from bench.waiting_pods import Kind
from koordpy.api.scheme import resource_of
from koordpy.embedded.apiserver.connection import Connection
from koordpy.embedded.apiserver.connections import Connections
from koordpy.embedded.apiserver.wire import Answer, Request, Response, Stream
from koordpy.lib.certificates import issue, make_ca

RESERVATIONS = 1_000
BINDS = 8
"""Connections for bind calls."""

PODS = "/api/v1/pods"


class ControlPlane:
    """One cluster: what it lists, its waiting pods, and its watch of pods."""

    def __init__(self, nodes: int, kind: Kind, reservations: int, pods: int) -> None:
        self.world = worlds.nodes(nodes, reservations)
        self._version = 10_000_000
        self.pods: dict[str, objects.Document] = {}
        """The waiting pods by name, as the API server has them."""
        for i in range(pods):
            pod = _as_stored(kind.pod(i, "default"), i)
            self.pods[pod["metadata"]["name"]] = pod
        self.world.lists[PODS] = [_encoded(pod) for pod in self.pods.values()]
        for number, (type_, document) in enumerate(kind.owners()):
            document["metadata"] |= {"namespace": "default", "uid": f"owner-{number}", "resourceVersion": "1"}
            self.world.lists.setdefault(resource_of(type_).path(), []).append(_encoded(document))
        self._watches: list[Stream] = []
        self.bound = 0

    def handle(self, request: Request) -> Answer:
        """Answer a request of koordpy."""
        if request.flag("watch"):
            return Stream(self._watches.append if request.path == PODS else lambda _: None)
        if request.path.endswith("/binding"):
            name = request.path.split("/")[-2]
            asyncio.get_running_loop().call_later(0.001, self._show, name, json.loads(request.body))
            return Response(b'{"kind":"Status","apiVersion":"v1","status":"Success","code":201}', 201)
        if request.method != "GET":
            return Response(b"{}", 404)
        limit, start = int(request.query.get("limit", 0)), int(request.query.get("continue") or 0)
        return worlds._page(self.world.lists.get(request.path, []), limit, start)

    def _show(self, name: str, binding: objects.Document) -> None:
        """Show a pod on its node."""
        self._version += 1
        pod = self.pods[name]
        pod["metadata"]["resourceVersion"] = str(self._version)
        pod["metadata"].setdefault("annotations", {}).update(binding["metadata"].get("annotations") or {})
        pod["spec"]["nodeName"] = binding["target"]["name"]
        pod["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "True",
                "observedGeneration": 1,
                "lastProbeTime": None,
                "lastTransitionTime": "2026-01-01T10:00:00Z",
            }
        ]
        event = b'{"type":"MODIFIED","object":' + _encoded(pod) + b"}\n"
        for watch in self._watches:
            if not watch.closed:
                watch.write(event)
        self.bound += 1


def _as_stored(pod: objects.Document, i: int) -> objects.Document:
    """Return a pod with what an API server adds to it."""
    pod = with_uid(pod, i)
    pod["metadata"] |= {
        "resourceVersion": str(1_000_000 + i),
        "generation": 1,
        "creationTimestamp": "2026-01-01T10:00:00Z",
        "managedFields": [
            {
                "manager": "koordpy",
                "operation": "Update",
                "apiVersion": "v1",
                "time": "2026-01-01T10:00:00Z",
                "fieldsType": "FieldsV1",
                "fieldsV1": {
                    "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                    "f:spec": {
                        "f:containers": {
                            'k:{"name":"main"}': {
                                ".": {},
                                "f:image": {},
                                "f:imagePullPolicy": {},
                                "f:name": {},
                                "f:resources": {
                                    ".": {},
                                    "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}},
                                },
                                "f:terminationMessagePath": {},
                                "f:terminationMessagePolicy": {},
                            }
                        },
                        "f:dnsPolicy": {},
                        "f:enableServiceLinks": {},
                        "f:restartPolicy": {},
                        "f:schedulerName": {},
                        "f:securityContext": {},
                        "f:terminationGracePeriodSeconds": {},
                        "f:tolerations": {},
                    },
                },
            }
        ],
    }
    pod["spec"] |= {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "enableServiceLinks": True,
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    pod["spec"]["containers"][0] |= {
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }
    pod["status"] = {"phase": "Pending", "qosClass": "Burstable"}
    return pod


def _encoded(document: objects.Document) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


class Server:
    """A koordpy over a control plane of its own."""

    def __init__(self, checkout: Path, plane: ControlPlane, nodes: int) -> None:
        self.checkout, self.plane = checkout, plane
        self._names = [objects.node_name(zone + i) for zone in range(3) for i in range(0, nodes - zone, 3)]
        self._sent = nodes * max(50 - nodes // 125, 5) // 100  # kube-scheduler's numFeasibleNodesToFind
        self._start = 0
        self._waiting = deque(plane.pods.values())
        self.url, self.pid = "", 0

    async def schedule(self, pods: int, pause: float) -> float:
        """Have so many pods bound; return the milliseconds of processor time that one took."""
        async with load.channels(self.url, 1 + BINDS) as (filters, *binds):
            free: asyncio.Queue[load.Channel] = asyncio.Queue()
            for channel in binds:
                free.put_nowait(channel)
            before, awaited = machine.cpu_seconds(self.pid), self.plane.bound + pods
            binding: list[asyncio.Task[None]] = []
            for _ in range(pods):
                pod = self._waiting.popleft()
                (node,) = left_of(await filters.ask(self._filter(pod)), 1)
                binding.append(asyncio.create_task(self._bind(free, pod, node)))
                await asyncio.sleep(pause)
            await asyncio.gather(*binding)
            while self.plane.bound < awaited:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            return (machine.cpu_seconds(self.pid) - before) / pods * 1e3

    def _filter(self, pod: objects.Document) -> bytes:
        names = (self._names[self._start :] + self._names[: self._start])[: self._sent]
        self._start = (self._start + self._sent) % len(self._names)
        shown = {**pod, "metadata": {k: v for k, v in pod["metadata"].items() if k != "managedFields"}}
        return load.request(
            f"{self.url}/extender/filter", _encoded({"Pod": shown, "Nodes": None, "NodeNames": names})
        )

    async def _bind(self, free: asyncio.Queue[load.Channel], pod: objects.Document, node: str) -> None:
        channel, meta = await free.get(), pod["metadata"]
        body = {
            "PodName": meta["name"],
            "PodNamespace": meta["namespace"],
            "PodUID": meta["uid"],
            "Node": node,
        }
        answer = json.loads(await channel.ask(load.request(f"{self.url}/extender/bind", _encoded(body))))
        if answer.get("Error"):
            raise load.UnexpectedAnswer(answer["Error"])
        free.put_nowait(channel)

    async def start(self, stack: AsyncExitStack, folder: Path, context: ssl.SSLContext, chain: str) -> None:
        """Start the API server and koordpy."""
        serving = await asyncio.get_running_loop().create_server(
            partial(Connection, self.plane.handle, Connections()), "127.0.0.1", 0, ssl=context
        )
        stack.callback(serving.close)
        port = serving.sockets[0].getsockname()[1]
        kubeconfig = folder / f"kubeconfig-{port}"
        cluster = {"server": f"https://127.0.0.1:{port}", "insecure-skip-tls-verify": True}
        kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "here", "cluster": cluster}],
                    "users": [{"name": "me", "user": {"token": "secret"}}],
                    "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
                    "current-context": "here",
                }
            )
        )
        bind = f"127.0.0.1:{servers.free_port()}"
        self.url = f"http://{bind}"
        arguments: list[Any] = [
            self.checkout / ".venv/bin/koordpy", "serve", "--parts", "extender", "--no-leader-elect",
            "--controller-plugins", "-Reservation", "--kubeconfig", kubeconfig, "--extender-bind", bind,
            "--node-choice", "koordpy",
        ]  # fmt: skip
        if chain == "full":
            arguments += ["--scheduler-config", FULL_CHAIN]
        running = servers.running(f"koordpy-{port}", arguments, f"{self.url}/readyz", folder)
        process = await asyncio.to_thread(running.__enter__)
        stack.callback(running.__exit__, None, None, None)
        self.pid = process.pid


async def measure(options: argparse.Namespace, nodes: int, kind: Kind, chain: str) -> None:
    """Print the milliseconds of each checkout: the least, the median."""
    ca = make_ca("bench", datetime.now(UTC))
    pair = issue(ca, ["127.0.0.1"], datetime.now(UTC))
    reservations = RESERVATIONS if chain == "full" else 0
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="koordpy-bench-")))
        (folder / "tls.pem").write_bytes(pair.cert + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "tls.pem")
        started = []
        for checkout in map(Path.resolve, options.checkouts):
            plane = ControlPlane(nodes, kind, reservations, options.pods * (options.rounds + 1))
            server = Server(checkout, plane, nodes)
            await server.start(stack, folder, context, chain)
            await server.schedule(options.pods, options.pause)
            started.append(server)
        if options.wait:
            print("ready:", *(server.pid for server in started), flush=True)
            await asyncio.sleep(options.wait)
        found: dict[Path, list[float]] = {server.checkout: [] for server in started}
        for _ in range(options.rounds):
            for server in random.sample(started, len(started)):
                found[server.checkout].append(await server.schedule(options.pods, options.pause))
        if options.wait:
            print("done", flush=True)
            await asyncio.sleep(options.wait)
    each = (f"{min(taken):.2f} {statistics.median(taken):.2f}" for taken in found.values())
    print(f"{nodes:5} nodes {chain:8}{kind.name.lower():12} ms a pod, least and median: {'   '.join(each)}")


def main() -> None:
    """Read the arguments and measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.pod_cost", description=__doc__)
    parser.add_argument("checkouts", nargs="*", type=Path, default=[servers.PROJECT])
    parser.add_argument("--nodes", type=int, nargs="*", default=[1_000, 5_000])
    parser.add_argument("--kinds", nargs="*", default=[kind.name.lower() for kind in Kind])
    parser.add_argument("--chains", nargs="*", default=["shipped", "full"], choices=["shipped", "full"])
    parser.add_argument("--pods", type=int, default=300, help="in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pause", type=float, default=0.001, help="seconds after each filter")
    parser.add_argument("--wait", type=float, help="seconds, for a profiler")
    options = parser.parse_args()
    for nodes, kind, chain in itertools.product(options.nodes, options.kinds, options.chains):
        uvloop.run(measure(options, nodes, Kind[kind.upper()], chain))


if __name__ == "__main__":
    main()
