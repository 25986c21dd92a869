"""The cluster of the demo: an embedded control plane whose pods run, and koordpy registered in it.

The wiring is that of a koordpy outside of its cluster: the manifests are those of `deploy/`, the webhooks are
called by URL and have a certificate from a Secret, the schedulers hold their Leases, and all communication is
HTTP.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from koordpy import data
from koordpy import settings as process_settings
from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.compose.parts.extender import ExtenderPart
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.connections import Limits
from koordpy.embedded.kubelet import Kubelets
from koordpy.embedded.objects import Objects
from koordpy.embedded.scheduler import Scheduler
from koordpy.embedded.workloads import WorkloadControllers
from koordpy.scheduling.profiles import config as scheduling_config
from koordpy.settings import WORKER_DEBUG_PORT, Settings

from .access import API_PORT, LOOPBACK, Endpoints, kubeconfig_path, port_or_any, write_kubeconfig, write_yaml

NAMESPACE: Final = "koordinator-system"

_WEBHOOK_HOST: Final = "localhost"
"""koordpy runs outside of this cluster, so the API server calls the webhooks by URL."""

_READY_SECONDS: Final = 60.0

SCHEDULER_NAMES: Final = ("default-scheduler", "koord-scheduler")
"""The schedulerNames of the demo's pods."""

_SCHEDULER_CONFIG = {"full": "kube-scheduler-config.yaml", "light": "kube-scheduler-config-light.yaml"}


class DemoFailed(Exception):
    """The demo cannot run as asked for, or a step of it did not happen."""


@dataclass(frozen=True)
class DemoOptions:
    """What the user chose; None is the demo's own choice."""

    nodes: int = 50
    port: int | None = None
    """Of the API server; 0 is any free one, for the other listeners too."""
    config: Path | None = None
    """A KoordpyConfiguration of the process with webhooks and extender."""
    scheduler_config: str | None = None
    """A KubeSchedulerConfiguration with the plugins of the extender."""
    kubeconfig: Path | None = None
    """Where to write the kubeconfig."""

    @property
    def is_customized(self) -> bool:
        """Whether koordpy runs with the user's configuration, in which any policy may be enabled."""
        return self.config is not None or self.scheduler_config is not None


_STORAGE_BYTES = 32 << 20
_HISTORY_BYTES = 16 << 20
"""The demo's objects take a tenth of this; what is left is for those of its user."""


class DemoCluster:
    """A cluster without nodes. Everything it opens is closed by the exit stack; files are in `folder`."""

    api: ApiServer
    client: Client
    objects: Objects
    kubelets: Kubelets
    process: Process
    kubeconfig: Path
    _scheduler_document: dict[str, Any]

    def __init__(self, options: DemoOptions, folder: Path, stack: AsyncExitStack) -> None:
        self._options, self._folder, self._stack = options, folder, stack
        self.worker: Process | None = None
        """The process with the descheduler, once it runs."""

    async def start_control_plane(self) -> str:
        """Start the API server, write the kubeconfig; return what was started."""
        crds = sorted(data.deploy("crds").glob("*.yaml"))
        port = self._options.port
        server = ApiServer(
            LOOPBACK,
            self._free(API_PORT) if port is None else port,
            crds,
            controllers=True,
            metrics=True,
            limits=Limits(received=24 << 20, unread=32 << 20),
            storage_bytes=_STORAGE_BYTES,
            history_bytes=_HISTORY_BYTES,
        )
        try:
            self.api = await self._stack.enter_async_context(server)
        except OSError as error:
            raise DemoFailed(f"--port: {LOOPBACK}:{server.port} cannot be used: {error.strerror}") from None
        self.kubeconfig = self._options.kubeconfig or kubeconfig_path(self.api.port)
        write_kubeconfig(self.kubeconfig, self.api.url)
        self._stack.callback(self.kubeconfig.unlink, missing_ok=True)
        self.client = self._connect()
        self.objects = Objects(self.api.catalog, self.client)
        await self.objects.ensure_namespace(NAMESPACE)
        await self.objects.create_all(data.documents("priorityclasses", "koordinator.yaml"))
        await self._stack.enter_async_context(WorkloadControllers(self._connect()))
        self.kubelets = await self._stack.enter_async_context(Kubelets(self._connect()))
        return f"API server at {self.api.url} with {len(crds)} of Koordinator's CRDs"

    async def serve(self) -> str:
        """Register koordpy's webhooks and extender, and serve them; return what was registered."""
        for name in ("mutating.yaml", "validating.yaml"):
            await self.objects.create_all(data.documents("webhooks", name))
        settings = self._settings()
        parts = settings.parts or process_settings.SERVING
        missing = [part for part in process_settings.SERVING if part not in parts]
        if missing:
            raise DemoFailed(f"{self._options.config}: parts: the demo needs {', '.join(missing)} too")
        self.process = Process(settings, parts)
        self._stack.push_async_callback(self.process.stop)
        await self.process.start()
        self._require_profiles(settings)
        await self.process.wait_ready(_READY_SECONDS)
        await self._schedule()
        return "webhook configurations with a fresh CA, extender in the scheduler's configuration"

    @property
    def endpoints(self) -> Endpoints:
        """Where everything is."""
        listeners = self.process.listeners
        return Endpoints(
            kubeconfig=str(self.kubeconfig),
            api_server=self.api.url,
            admission=f"https://{_WEBHOOK_HOST}:{listeners['admission'].port}",
            extender=f"{listeners['extender'].url}/extender",
            debug=listeners["debug"].url,
            worker="" if self.worker is None else self.worker.listeners["debug"].url,
        )

    @property
    def worker_port(self) -> int:
        """The port of the worker's debug API."""
        return self._free(WORKER_DEBUG_PORT)

    def write_configuration(self, worker: dict[str, Any]) -> list[str]:
        """Write what koordpy and the scheduler run with here, beside the kubeconfig, for the doctor.

        `worker` are the settings of the worker processes. Return the doctor's options with these files.
        """
        document = self.process.settings.model_dump(mode="json", by_alias=True, exclude_unset=True)
        del document["client"]
        parts = [*(self.process.settings.parts or process_settings.SERVING), "descheduler", "controllers"]
        gates = {**document.get("featureGates", {}), **worker.pop("featureGates", {})}
        header = {"apiVersion": process_settings.API_VERSION, "kind": process_settings.KIND}
        own = {
            **header,
            **document,
            "parts": list(dict.fromkeys(parts)),
            "worker": worker,
            "featureGates": gates,
        }
        options: list[str] = []
        for option, name, content in (
            ("--config", "koordpy.yaml", own),
            ("--scheduler-config", "kube-scheduler.yaml", self._scheduler_document),
        ):
            path = self.kubeconfig.with_name(f"{self.kubeconfig.stem}.{name}")
            write_yaml(path, content)
            self._stack.callback(path.unlink, missing_ok=True)
            options += [option, str(path)]
        return options

    async def homes(self) -> dict[str, str]:
        """Return the nodes of all bound pods by the pods' UIDs."""
        pods = await self.client.list_all(Pod)
        return {pod.metadata.uid: pod.spec.node_name for pod in pods if pod.spec.node_name}

    # --- wiring ------------------------------------------------------------------------------------

    def _connect(self) -> Client:
        client = Client(Connection.find(server=self.api.url))
        self._stack.push_async_callback(client.close)
        return client

    def _free(self, port: int) -> int:
        """Return a default port if it is free and the user did not ask for any."""
        return 0 if self._options.port == 0 else port_or_any(port)

    def _settings(self) -> Settings:
        """Return the user's settings, with the demo's own for fields that the user's file does not set."""
        options, defaults = self._options, Settings()
        own = {
            "admission": {
                "bindAddress": LOOPBACK,
                "port": self._free(defaults.admission.port),
                "certDir": str(self._folder / "certs"),
                "certificates": {"mode": "secret", "host": _WEBHOOK_HOST, "propagation": 0},
            },
            "extender": {
                "port": self._free(defaults.extender.port),
                "schedulerConfig": str(data.deploy("demo", "koordpy-profiles.yaml")),
            },
            "debug": {"port": self._free(defaults.debug.port)},
            "shutdownDelay": 0,
        }
        chosen = {
            "client": {"server": self.api.url},
            "extender": {"schedulerConfig": options.scheduler_config},
        }
        return process_settings.load(options.config, chosen, defaults=own)

    def _require_profiles(self, settings: Settings) -> None:
        """Raise DemoFailed where no profile schedules pods of the demo, which would be pending for good."""
        known = sorted(self.process.part(ExtenderPart).profiles.frameworks)
        missing = [name for name in SCHEDULER_NAMES if name not in known]
        if missing:
            raise DemoFailed(
                f"{settings.extender.profiles_file}: the demo's pods need profiles for the schedulerNames "
                f"{', '.join(missing)} too; it has {', '.join(known)}"
            )

    async def _schedule(self) -> None:
        """Run the embedded scheduler with the shipped configuration, which calls the extender."""
        extender = self.process.settings.extender
        [document] = data.documents("scheduler", _SCHEDULER_CONFIG[extender.mode])
        url = f"{self.process.listeners['extender'].url}/extender"
        for entry in document["extenders"]:
            entry["urlPrefix"] = url
        config = scheduling_config.read(document)
        profiles = {profile.scheduler_name: profile for profile in config.profiles}
        for name in self.process.part(ExtenderPart).profiles.frameworks:
            if name not in profiles:  # one that only the user's configuration has
                profiles[name] = config.profiles[0].model_copy(update={"scheduler_name": name})
                document["profiles"].append({**document["profiles"][0], "schedulerName": name})
        self._scheduler_document = document
        config = config.model_copy(update={"profiles": tuple(profiles.values())})
        scheduler = Scheduler(config, self._connect(), elects=True)
        self._stack.push_async_callback(scheduler.stop)
        await scheduler.start()
