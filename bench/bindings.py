"""A process that sees pods get nodes: `python -m bench.bindings KUBECONFIG NAMESPACE PODS SECONDS`.

It prints `watching` when the watch is open, and after the last pod the seconds between the first binding and
the last. After SECONDS it gives up. When it is done it waits to be ended. It is a process of its own because
starting servers must not keep it from reading events.
"""

import asyncio
import sys
import time

import uvloop

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Connection
from koordpy.cluster.informers import Informers
from koordpy.cluster.selector import Selector


class Bindings:
    """Counts pods on nodes, and notes when the first and the last came."""

    def __init__(self, awaited: int) -> None:
        self._awaited, self.seen = awaited, 0
        self.first = self.last = 0.0
        self.complete = asyncio.Event()

    def note(self, _: Pod) -> None:
        """Count one."""
        self.last = time.perf_counter()
        self.first = self.first or self.last
        self.seen += 1
        if self.seen == self._awaited:
            self.complete.set()


async def watch(kubeconfig: str, namespace: str, pods: int, seconds: float) -> None:
    """Look until all pods are bound. Raises TimeoutError."""
    client = Client(Connection.from_kubeconfig(kubeconfig))
    cluster = Cluster()
    bindings = Bindings(pods)
    bound = Selector(namespace=namespace, fields="spec.nodeName!=")
    cluster.store(Pod, selector=bound).subscribe(on_add=bindings.note)
    async with Informers(cluster, client) as informers:
        await informers.wait_synced(30)
        print("watching", flush=True)
        try:
            await asyncio.wait_for(bindings.complete.wait(), seconds)
        except TimeoutError:
            raise TimeoutError(f"{bindings.seen} of {pods} pods were bound in {seconds:g} s") from None
    print(bindings.last - bindings.first, flush=True)
    await client.close()
    await asyncio.sleep(seconds)  # the caller reads the processor time of this process, then ends it


if __name__ == "__main__":
    uvloop.run(watch(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])))
