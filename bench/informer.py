"""How fast and how small the informers are: list N pods in pages, then follow a burst of watch events.

A second process serves ready-made bytes, so that what is measured is the client. Run
`python -m bench.informer [--pods 100000] [--nodes 5000] [--events 50000] [--gc N N N] [--freeze]`.
"""

import argparse
import asyncio
import gc
import multiprocessing
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.pods import pod_json
from koordpy.api.core import Node, Pod
from koordpy.api.meta import ObjectMeta
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import PODS
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.informers import Informers


@dataclass(frozen=True)
class Sizes:
    """What is measured on."""

    pods: int
    nodes: int
    events: int


def serve(sizes: Sizes, port: "multiprocessing.Queue[int]") -> None:
    """Serve `/api/v1/pods`: pages made on the fly, and on every watch the same burst of events."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                target = head.split(b" ", 2)[1].decode()
                query = dict(part.partition("=")[::2] for part in target.partition("?")[2].split("&"))
                if "watch" in query:
                    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
                    for start in range(0, sizes.events, 50):
                        last = min(start + 50, sizes.events)
                        lines = b"".join(map(event, range(start, last)))
                        writer.write(b"%x\r\n%b\r\n" % (len(lines), lines))
                        await writer.drain()
                    await asyncio.sleep(3600)
                start, limit = int(query.get("continue", 0)), int(query["limit"])
                last = min(start + limit, sizes.pods)
                items = b",".join(pod_json(i, sizes.nodes) for i in range(start, last))
                more = last if last < sizes.pods else ""
                body = b'{"metadata":{"resourceVersion":"1000000","continue":"%b"},"items":[%b]}'
                body %= (str(more).encode(), items)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def event(i: int) -> bytes:
        pod = pod_json(i % sizes.pods, sizes.nodes, 2 + i // sizes.pods)
        return b'{"type":"MODIFIED","object":%b}\n' % pod

    async def main() -> None:
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


def resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def measure(sizes: Sizes, port: int, freeze: bool) -> None:
    """List, watch, and print what it took; rates are per second of this process' CPU time."""
    cluster, served = Cluster(), Cluster()
    nodes, pods = cluster.nodes, served.store(Pod)
    pods.subscribe(on_add=nodes.observe_pod, on_update=lambda _, pod: nodes.observe_pod(pod))
    for i in range(sizes.nodes):
        cluster.store(Node).apply(Node(metadata=ObjectMeta(name=f"node-{i:05d}")))
    client = Client(Connection.to(Access(f"http://127.0.0.1:{port}")))
    stalls = Stalls()
    memory, cpu, wall = resident(), time.process_time(), time.perf_counter()
    async with Informers(served, client) as informers:
        await informers.wait_synced(600)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        stalls.report()
        gc.collect()
        await asyncio.sleep(0.01)
        stalls.longest = 0.0  # the collection was ours
        used = resident() - memory
        print(f"list:   {len(pods):,} pods in {wall:.1f} s, CPU {cpu:.1f} s: {len(pods) / cpu:,.0f} pods/s")
        print(f"memory: {used / 1e6:.0f} MB, {used / len(pods):,.0f} bytes a pod, the node table's part too")
        if freeze:
            gc.freeze()
        last = sizes.events - 1
        expected = str(1000 + last % sizes.pods + (2 + last // sizes.pods) * 1_000_000)
        cpu, wall = time.process_time(), time.perf_counter()
        while informers.health[0].resource_version != expected:
            await asyncio.sleep(0.01)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(
            f"watch:  {sizes.events:,} events in {wall:.1f} s, CPU {cpu:.1f} s: {sizes.events / cpu:,.0f}/s"
        )
        stalls.report()
        started = time.perf_counter()
        gc.collect()
        took = (time.perf_counter() - started) * 1e3
        print(f"gc:     a full collection takes {took:.0f} ms ({len(gc.get_objects()):,} tracked objects)")
    stalls.task.cancel()
    if int(nodes.requested[:, PODS].sum()) != sizes.pods:
        raise SystemExit("the node table does not hold every pod")
    await client.close()


class Stalls:
    """The longest time for which the event loop did nothing else, in CPU time of its thread."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.task = asyncio.create_task(self._measure())

    def report(self) -> None:
        """Print it and start anew."""
        print(f"stall:  the event loop was held for {self.longest * 1e3:.0f} ms at most")
        self.longest = 0.0

    async def _measure(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, time.thread_time() - before)


def main() -> None:
    """Read the arguments, start the server, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--gc", type=int, nargs=3, metavar="N", help="gc.set_threshold")
    parser.add_argument("--freeze", action="store_true", help="gc.freeze() after the list")
    arguments = parser.parse_args()
    if arguments.gc:
        gc.set_threshold(*arguments.gc)
    sizes = Sizes(arguments.pods, arguments.nodes, arguments.events)
    port: multiprocessing.Queue[int] = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(sizes, port), daemon=True)
    server.start()
    try:
        uvloop.run(measure(sizes, port.get(timeout=10), arguments.freeze))
    finally:
        server.terminate()
        server.join()


if __name__ == "__main__":
    main()
