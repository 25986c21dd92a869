"""The two control planes that stories run on, behind one face."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Protocol

import kubernetes

from koordpy import data
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.scheduler import Scheduler
from koordpy.scheduling.profiles import config as scheduling_config
from tests.e2e.controlplane.plane import ControlPlane


class Plane(Protocol):
    """An API server, and a scheduler when it is asked for."""

    client_settings: dict[str, Any]

    def api(self) -> kubernetes.client.ApiClient: ...

    def start_scheduler(self, config: dict[str, Any]) -> None: ...

    def stop(self) -> None: ...


class EmbeddedPlane:
    """koordpy's own API server and scheduler, on a thread of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = ApiServer(crds=sorted(data.deploy("crds").glob("*.yaml")))
        self._run(self._server.start())
        self._scheduler: Scheduler | None = None
        self._client: Client | None = None
        self.client_settings = {"server": self._server.url}

    def api(self) -> kubernetes.client.ApiClient:
        return kubernetes.client.ApiClient(kubernetes.client.Configuration(host=self._server.url))

    def start_scheduler(self, config: dict[str, Any]) -> None:
        async def start() -> None:
            self._client = Client(Connection.find(server=self._server.url))
            self._scheduler = Scheduler(scheduling_config.read(config), self._client)
            await self._scheduler.start()

        self._run(start())

    def stop(self) -> None:
        async def stop() -> None:
            if self._scheduler is not None and self._client is not None:
                await self._scheduler.stop()
                await self._client.close()
            await self._server.stop()

        self._run(stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(120)


class RealPlane:
    """etcd, kube-apiserver and kube-scheduler."""

    def __init__(self) -> None:
        self._plane = ControlPlane()
        self._plane.start()
        self._plane.install_crds()
        self.client_settings = {"kubeconfig": str(self._plane.kubeconfig)}

    def api(self) -> kubernetes.client.ApiClient:
        return kubernetes.config.new_client_from_config(str(self._plane.kubeconfig))

    def start_scheduler(self, config: dict[str, Any]) -> None:
        self._plane.start_scheduler(config)

    def stop(self) -> None:
        self._plane.stop()


def documents(*parts: str) -> list[dict[str, Any]]:
    """Return the documents of a file in deploy/."""
    return data.documents(*parts)
