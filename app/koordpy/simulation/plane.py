"""The control plane of a simulation: production parts in one process, called without a network.

The API server and kube-scheduler are the embedded ones; webhooks, extender, controllers and descheduler are
those of `koordpy serve` and `koordpy worker`, created by the same code from the same configuration files.
"""

import asyncio
import random
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import yaml

from koordpy import data
from koordpy import settings as process_settings
from koordpy.api import config_document, config_file
from koordpy.api.config_model import ConfigError
from koordpy.cluster.client import Client
from koordpy.compose.part import PartError
from koordpy.compose.parts.admission import AdmissionPart
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.controllers import DisruptionController
from koordpy.embedded.objects import Objects
from koordpy.embedded.scheduler import Scheduler
from koordpy.http.server.direct import Direct
from koordpy.lib.clock import Clock
from koordpy.lib.http1 import Caller
from koordpy.scheduling.profiles import config as scheduling_config
from koordpy.scheduling.profiles.config import SchedulerConfiguration
from koordpy.settings import Settings

from .inprocess import EndpointCaller, ServerChannel
from .setup import SchedulerSetup, Source

Document = dict[str, Any]

_NO_SLOW_CYCLES = "24h"
"""The interval of checks for slow attempts: scheduling takes no simulated time, the checks do."""

_SERVICE = ("koordinator-system", "koordinator-webhook-service")


class ControlPlane:
    """Everything that runs besides the nodes. Enter it on the loop that it should run on.

    Files that the setup names are in `folder`; `controllers` are the selected ones. Raises ConfigError for a
    configuration that cannot run.
    """

    def __init__(
        self, setup: SchedulerSetup, controllers: Sequence[str], folder: Path, clock: Clock, seed: int
    ) -> None:
        self.setup, self._folder, self._clock = setup, folder, clock
        self._controllers = controllers
        self._seed = seed
        self._stack = AsyncExitStack()
        self._endpoints: dict[str, Direct] = {}
        self._tasks: list[asyncio.Task[Any]] = []
        self.api = ApiServer(
            crds=sorted(data.deploy("crds").glob("*.yaml")),
            clock=clock,
            rng=self._rng("apiserver"),
            resolve_service={_SERVICE: ("koordpy", 443)},
            connect=self._connect,
        )
        self.channel = ServerChannel(self.api)
        self.client = Client(self.channel, rng=self._rng("client"))
        self.objects = Objects(self.api.catalog, self.client)

    async def __aenter__(self) -> Self:
        """Start everything, in the order of a real cluster."""
        try:
            await self.api.load()
            await self.objects.create_all(data.documents("priorityclasses", "koordinator.yaml"))
            self._run("disruption controller", DisruptionController(self.api.catalog, self._clock).run())
            folder = Path(
                self._stack.enter_context(tempfile.TemporaryDirectory(prefix="koordpy-simulation-"))
            )
            if self.setup.koordpy or self.setup.webhooks:
                await self.objects.ensure_namespace(_SERVICE[0])
                await self._serve(folder)
            await self._schedule()
            if self._controllers or self.setup.descheduler is not None:
                await self._work(folder)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    # --- parts -----------------------------------------------------------------------------------

    async def _serve(self, folder: Path) -> None:
        """Run the parts of `koordpy serve`; their endpoints are called in process."""
        path = folder / "profiles.yaml"
        path.write_text(self._profiles(), encoding="utf-8")
        settings = self._settings(
            {
                "admission": {"certificates": {"mode": "fs"}, "registration": {"enabled": False}},
                "extender": {
                    "schedulerConfig": str(path),
                    "leaderElect": False,
                    "monitor": {"period": _NO_SLOW_CYCLES},
                },
            }
        )
        parts = [
            *(["extender"] if self.setup.koordpy else []),
            *(["admission"] if self.setup.webhooks else []),
        ]
        try:
            process = self._process(settings, parts, "koordpy")
        except ConfigError as error:
            raise error.under(f"scheduler {self.setup.name!r}: profiles") from None
        for routes in process.routes.values():
            for endpoint_path, endpoint in routes.hot.items():
                if isinstance(endpoint, Direct):
                    self._endpoints[endpoint_path] = endpoint
        await process.start()
        if self.setup.webhooks:
            served = process.part(AdmissionPart).chains
            for name in ("mutating.yaml", "validating.yaml"):
                for document in data.documents("webhooks", name):
                    document["webhooks"] = [
                        webhook
                        for webhook in document["webhooks"]
                        if webhook["clientConfig"]["service"]["path"] in served
                    ]
                    await self.objects.create(document)

    async def _schedule(self) -> None:
        """Run the embedded scheduler."""
        where = f"scheduler {self.setup.name!r}: kubeScheduler"
        text = self._text(self.setup.kube_scheduler, "scheduler", "kube-scheduler-config.yaml")
        try:
            config: SchedulerConfiguration = scheduling_config.read(config_document.load(text))
            if not self.setup.koordpy:
                config = config.model_copy(update={"extenders": ()})
            self.scheduler = Scheduler(
                config, self.client, clock=self._clock, rng=self._rng("scheduler"), connect=self._connect
            )
        except ConfigError as error:
            raise error.under(where) from None
        self._stack.push_async_callback(self.scheduler.stop)
        await self.scheduler.start()

    async def _work(self, folder: Path) -> None:
        """Run the parts of `koordpy worker`: koord-manager's controllers, and the descheduler."""
        document: Document = {
            "worker": {
                "leaderElect": False,
                "controllers": {"selection": list(self._controllers)},
                "descheduler": {},
            }
        }
        parts = ["controllers"] if self._controllers else []
        if self.setup.descheduler is not None:
            path = folder / "descheduler.yaml"
            path.write_text(self._text(self.setup.descheduler), encoding="utf-8")
            profiles = folder / "proof-profiles.yaml"
            profiles.write_text(self._profiles(), encoding="utf-8")
            document["worker"]["descheduler"] |= {"config": str(path), "schedulerConfig": str(profiles)}
            document["worker"]["descheduler"]["schedulerConfig"] = str(self._whole_profiles(folder))
            parts.append("descheduler")
        try:
            process = self._process(self._settings(document), parts, "worker")
        except ConfigError as error:
            raise error.under(f"scheduler {self.setup.name!r}: descheduler") from None
        except PartError:  # feature gates switch off the controllers that were selected
            return
        await process.start()

    def _whole_profiles(self, folder: Path) -> Path:
        """Return a file with the profiles by which pods are scheduled, for proofs of evictions."""
        if self.setup.koordpy:
            text = self._text(self.setup.profiles, "scheduler", "koordpy-profiles.yaml")
        else:
            text = self._text(self.setup.kube_scheduler, "scheduler", "kube-scheduler-config.yaml")
        path = folder / "scheduled-by.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    def _profiles(self) -> str:
        """Return koordpy's profiles, which prove evictions too: without plugins where it is not called."""
        if self.setup.koordpy:
            return self._text(self.setup.profiles, "scheduler", "koordpy-profiles.yaml")
        text = self._text(self.setup.kube_scheduler, "scheduler", "kube-scheduler-config.yaml")
        names = [each.scheduler_name for each in scheduling_config.read(config_document.load(text)).profiles]
        plain = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        return yaml.safe_dump({**plain, "profiles": [{"schedulerName": name} for name in names]})

    def _settings(self, document: Document) -> Settings:
        gates = {"featureGates": self.setup.feature_gates, "shutdownDelay": 0}
        return process_settings.load(None, document | gates)

    def _process(self, settings: Settings, parts: list[str], name: str) -> Process:
        process = Process(
            settings,
            parts,
            listens=False,
            connection=self.channel,
            clock=self._clock,
            rng=self._rng(name),
        )
        self._stack.push_async_callback(process.stop)
        return process

    def _text(self, source: Source | None, *shipped: str) -> str:
        if source is None:
            return data.deploy(*shipped).read_text(encoding="utf-8")
        if source.manifest is not None:
            return yaml.safe_dump(source.manifest)
        path = self._folder / str(source.file)
        try:
            return config_file.read(path)
        except ConfigError as error:
            raise error.under(path) from None

    def _connect(self, origin: str) -> Caller:
        return EndpointCaller(origin, self._endpoints)

    def _rng(self, whose: str) -> random.Random:
        return random.Random(f"{self._seed}/{whose}")

    def _run(self, name: str, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))
