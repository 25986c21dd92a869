"""A Kubernetes service on one machine: connections to one address go to the backends that are ready.

As kube-proxy does, it deals out connections, not requests, and does not read them: one that is open stays
where it is while its backend is not ready any more. A backend that cannot be reached is passed over.
"""

import asyncio
import itertools
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from typing import Self

import httpx

from tests.eventually import PATIENCE

_LOOK_SECONDS = 0.1


class Balancer:
    """Runs on a thread of its own from `with` until its end; `port` is where it listens.

    `backends` are ports of 127.0.0.1 that speak HTTPS and have `/readyz`.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.backends: list[int] = []
        self.ready: set[int] = set()
        self.dealt: Counter[int] = Counter()
        """Connections by backend."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started, self._stopping = threading.Event(), asyncio.Event()
        self._turn = itertools.count()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._carry, "127.0.0.1", self.port)
        looking = asyncio.create_task(self._look())
        self._started.set()
        await self._stopping.wait()
        looking.cancel()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _look(self) -> None:
        trust = ssl.create_default_context()
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE  # as kubelet's probes
        async with httpx.AsyncClient(verify=trust, trust_env=False, timeout=2) as client:
            while True:
                for port in list(self.backends):
                    try:
                        answer = await client.get(f"https://127.0.0.1:{port}/readyz")
                        ready = answer.status_code == 200
                    except httpx.TimeoutException:
                        continue  # it is slow, or was stopped for a while; it has not said that it goes
                    except httpx.HTTPError:
                        ready = False
                    (self.ready.add if ready else self.ready.discard)(port)
                await asyncio.sleep(_LOOK_SECONDS)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ready = sorted(self.ready)
        turn = next(self._turn)
        for port in ready[turn % len(ready) :] + ready[: turn % len(ready)] if ready else ():
            try:
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                continue
            self.dealt[port] += 1
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
            return
        writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Carry bytes one way; the end of one side, however it comes, is the end of the other."""
    end: Callable[[], None] = writer.close
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        end = writer.transport.abort
    finally:
        end()
