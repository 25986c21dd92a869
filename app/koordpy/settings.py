"""The settings of a koordpy process: a configuration file, overridden by the command line.

Policies have their own files in Koordinator's formats (scheduler and descheduler configuration). The
settings choose the parts, their addresses, and the connection to the API server.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_args

from pydantic import Field, model_validator

from koordpy import data
from koordpy.admission.handler_entry import HandlerEntry
from koordpy.admission.serving.config import CertificateSettings, Mode, RegistrationSettings
from koordpy.agent.engine.settings import AgentSettings
from koordpy.api import config_document, config_file, config_model
from koordpy.api.config_model import ConfigError, ConfigModel, Seconds
from koordpy.api.field_error import FieldError
from koordpy.cluster.leader import JITTER
from koordpy.scheduling.explain.settings import ObserverSettings
from koordpy.scheduling.extender.settings import NodeChoice

API_VERSION: Final = "config.koordpy.dev/v1alpha1"
KIND: Final = "KoordpyConfiguration"


CERT_DIR: Final = "/tmp/koordinator-webhook-certs"
"""Koordinator's."""

LOCAL_CERT_DIR: Final = "certs"

SHUTDOWN_DELAY: Final = 5.0
"""Seconds in which a cluster stops sending requests to a replica that shuts down."""

PartName = Literal["admission", "extender", "descheduler", "controllers", "agent", "debug"]
"""A part of a process that settings can choose; `koordpy.compose.parts` has them."""

PART_NAMES: tuple[PartName, ...] = get_args(PartName)

SERVING: tuple[PartName, ...] = ("admission", "extender", "debug")
"""The parts of `koordpy serve`, unless others are chosen."""

_RENAMED: Final[Mapping[str, str]] = {"doors": "parts", "worker.qos": "agent"}
"""Renamed fields."""

_SHIPPED_PROFILES = {"full": "koordpy-profiles.yaml", "light": "koordpy-profiles-light.yaml"}

ExtenderMode = Literal["full", "light"]
KubeSchedulerGangScheduling = Literal["auto", "enabled", "disabled"]
"""What binds pods: koordpy (full), or kube-scheduler alone (light), where no plugin allocates anything."""


class ClientSettings(ConfigModel):
    """The connection to the API server: `server` alone, else a kubeconfig, else the pod's service account."""

    server: str | None = None
    kubeconfig: str | None = None
    context: str | None = None


class ListenerSettings(ConfigModel):
    """An address, and the folder of its certificate where it speaks TLS."""

    bind_address: str
    port: int = Field(ge=0, le=65535)
    cert_dir: str | None = None
    tls_hosts: tuple[str, ...] = Field(default=("localhost", "127.0.0.1"), strict=False)
    """Names in a generated certificate; an existing one in the folder is left as it is."""
    allowed_hosts: tuple[str, ...] = Field(default=(), strict=False)
    """Host names, without ports, by which clients may call a listener on loopback besides `localhost`; other
    requests could come from web pages, by DNS rebinding. Beyond loopback, and for webhooks, any is accepted.
    """


class AdmissionSettings(ListenerSettings):
    """The admission webhooks. They always serve TLS, as kube-apiserver requires."""

    bind_address: str = "0.0.0.0"
    port: int = Field(default=9876, ge=0, le=65535)
    cert_dir: str | None = None
    """By default `certs` in the working directory, or Koordinator's folder where certificates are generated
    while the process runs; `certificate_folder` says which."""
    certificates: CertificateSettings = CertificateSettings()
    registration: RegistrationSettings = RegistrationSettings()
    enabled: tuple[HandlerEntry, ...] = Field(default=(), strict=False)
    """Handlers besides the in-tree ones, or in-tree ones with arguments or another place."""
    disabled: tuple[str, ...] = Field(default=(), strict=False)
    """Handlers to leave out; `*` leaves out all that `enabled` does not name."""
    history: int = Field(default=256, ge=0)
    """The number of admissions that are recorded for the debug API."""

    @property
    def certificate_folder(self) -> Path:
        """The folder of the serving certificate."""
        return Path(self.cert_dir or (CERT_DIR if self.certificates.generates else LOCAL_CERT_DIR))

    @property
    def shutdown_delay(self) -> float:
        """Seconds that the cluster needs to notice a shutdown; 0 if the certificate is not for a cluster."""
        return 0.0 if self.certificates.mode is Mode.LOCAL else SHUTDOWN_DELAY

    @property
    def registers(self) -> bool:
        """Whether the webhook configurations are completed."""
        enabled = self.registration.enabled
        return self.certificates.generates if enabled is None else enabled


class LeaseSettings(ConfigModel):
    """The Lease that one of several processes holds; times are seconds."""

    namespace: str = "koordinator-system"
    name: str = "koordinator-manager"
    lease_duration: Seconds = Field(default=15.0, ge=1)
    renew_deadline: Seconds = 10.0
    retry_period: Seconds = Field(default=2.0, gt=0)

    @model_validator(mode="after")
    def _leaves_time(self) -> "LeaseSettings":
        """A leader that cannot renew stops before another is elected, after more than one attempt."""
        if not int(self.lease_duration) > self.renew_deadline > JITTER * self.retry_period:
            raise ValueError(
                f"expected leaseDuration (whole seconds) > renewDeadline > {JITTER} * retryPeriod"
            )
        return self


class SchedulerLeaseSettings(LeaseSettings):
    """Koordinator's Lease: koord-scheduler and koordpy never schedule Reservations at the same time."""

    name: str = "koord-scheduler"


class ExtenderSettings(ListenerSettings, ObserverSettings):
    """The extender of kube-scheduler."""

    bind_address: str = "127.0.0.1"
    """Another address than loopback needs `cert_dir`, so that callers are authenticated."""
    port: int = Field(default=9877, ge=0, le=65535)
    client_ca_file: str | None = Field(default=None, alias="clientCAFile", min_length=1)
    """Authorities (PEM) of the client certificates that callers must present. By default the one that koordpy
    creates in `cert_dir`, with kube-scheduler's certificate: `client.crt`, `client.key`."""
    client_names: tuple[str, ...] = Field(default=(), strict=False)
    """Common names that client certificates may have; by default any of the authorities' certificates."""
    mode: ExtenderMode = "full"
    """`light` leaves binding to kube-scheduler; plugins that cannot do without the bind call are refused."""
    node_choice: NodeChoice = "kube-scheduler"
    """What chooses among the feasible nodes; with `koordpy` filter returns the best node alone."""
    scheduler_config: str | None = None
    """A KubeSchedulerConfiguration with the plugins to run; None: the shipped one of the mode."""
    skip_missing_plugins: bool = False
    """Leave out plugins of the configuration that are not installed, instead of refusing to start."""
    decisions: int = Field(default=1000, ge=0)
    """The number of scheduling cycles that are recorded for the debug API."""
    histories: int = Field(default=5000, ge=0)
    """The number of pods whose history is recorded for the debug API."""
    controller_plugins: tuple[str, ...] = Field(default=("*",), strict=False)
    """Koordinator's `--controller-plugins`: plugins whose controllers run; `NAME` enables, `-NAME` disables,
    `*` enables all that are not named."""
    network_topology_manager: bool = False
    """Koordinator's `--enable-network-topology-manager`: place the nodes in the tree of the
    ClusterNetworkTopology named `default`, and write its status."""
    kube_scheduler_gang_scheduling: KubeSchedulerGangScheduling = "auto"
    """Whether kube-scheduler gates the gangs of pods with `spec.workloadRef` or `spec.schedulingGroup`, which
    koordpy then leaves alone. `auto` reads the feature gates of kube-scheduler's pods in `kube-system`; where
    it does not run as one, say it here."""
    leader_elect: bool = True
    """False where no other process schedules Reservations or runs the plugins' controllers."""
    lease: SchedulerLeaseSettings = SchedulerLeaseSettings()

    @property
    def profiles_file(self) -> Path:
        """The effective KubeSchedulerConfiguration."""
        if self.scheduler_config is not None:
            return Path(self.scheduler_config)
        return data.deploy("scheduler", _SHIPPED_PROFILES[self.mode])


WORKER_DEBUG_PORT: Final = 10252
"""Of `koordpy worker`, unless its settings have one."""

AGENT_DEBUG_PORT: Final = 10253
"""Of `koordpy agent`, unless its settings have one."""


class DebugSettings(ListenerSettings):
    """The debug API. Beyond loopback the API server authenticates and authorizes requests."""

    bind_address: str = "127.0.0.1"
    port: int = Field(default=10251, ge=0, le=65535)
    """`koordpy worker` and `koordpy agent` have other defaults, so that all three run on one machine."""
    authentication: bool = False


class DeschedulerSettings(ConfigModel):
    """The worker's descheduler."""

    config: str | None = None
    """A DeschedulerConfiguration file; the part `descheduler` does not start without one."""
    dry_run: bool | None = None
    """Overrides the file's `dryRun`."""
    scheduler_config: str | None = None
    """A KubeSchedulerConfiguration with the profiles that prove evictions; None: that of `extender`.
    Without effect in a process that runs the extender too."""


class ControllersSettings(ConfigModel):
    """The worker's controllers, which koord-manager runs in Koordinator."""

    selection: tuple[str, ...] = Field(default=("*",), strict=False)
    """Koordinator's `--controllers`: `NAME` enables, `-NAME` disables, `*` enables all that are not named."""
    args: dict[str, dict[str, Any]] = {}
    """Arguments by the name of the controller."""
    config_namespace: str = "koordinator-system"
    slo_config_name: str = "slo-controller-config"
    """The ConfigMap of the SLO controllers: Koordinator's `--config-namespace` and `--slo-config-name`."""
    lease: LeaseSettings = LeaseSettings()
    """Koordinator's Lease: koord-manager and koordpy's controllers never run at the same time."""


class WorkerSettings(ConfigModel):
    """The parts of `koordpy worker`."""

    controllers: ControllersSettings = ControllersSettings()

    descheduler: DeschedulerSettings = DeschedulerSettings()
    leader_elect: bool = True
    """False disables the leader election of controllers and, whatever its file sets, of the descheduler."""


class Settings(ConfigModel):
    """All settings of one process."""

    api_version: Literal["config.koordpy.dev/v1alpha1"] = API_VERSION
    kind: Literal["KoordpyConfiguration"] = KIND
    parts: tuple[PartName, ...] | None = Field(default=None, min_length=1, strict=False)
    """The parts that run in the process; by default those that the command runs."""
    client: ClientSettings = ClientSettings()
    feature_gates: dict[str, bool] = {}
    admission: AdmissionSettings = AdmissionSettings()
    extender: ExtenderSettings = ExtenderSettings()
    debug: DebugSettings = DebugSettings()
    worker: WorkerSettings = WorkerSettings()
    agent: AgentSettings = AgentSettings()
    shutdown_delay: Seconds | None = None
    """How long a process that is shutting down keeps serving, no longer ready; by default 5 s where the
    webhooks have a certificate for a cluster, else 0."""


def load(
    path: Path | None,
    overrides: dict[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    defaults: dict[str, Any] | None = None,
) -> Settings:
    """Read a file and apply `overrides`, nested like the file.

    Fields that the file does not set come from Koordinator's variables in `environment`, then from
    `defaults`, nested like the file, then from this module. Raises ConfigError naming file (or variable) and
    path, for fields that are overridden too; OSError when the file cannot be read.
    """
    defaults = _laid_over(defaults or {}, _from_environment(environment or {}))
    try:
        text = "" if path is None else config_file.read(path)
        document = config_document.load(text)
        document = {} if document is None else document
        if isinstance(document, dict):
            _refuse_old_names(document)
            document = _laid_over(defaults, document)
        settings = config_model.read(Settings, document)  # also what an option overrides
    except ConfigError as error:
        raise error.under(path) if path is not None else error from None
    return config_model.read(Settings, _laid_over(document, overrides)) if overrides else settings


def _refuse_old_names(document: dict[str, Any]) -> None:
    """Raise ConfigError for fields that were renamed, naming the new ones."""
    problems = []
    for old, new in _RENAMED.items():
        *parents, name = old.split(".")
        found: Any = document
        for parent in parents:
            found = found.get(parent) if isinstance(found, dict) else None
        if isinstance(found, dict) and name in found:
            problems.append(FieldError(old, f"was renamed to {new}"))
    if problems:
        raise ConfigError(*problems)


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings in the environment of a koord-manager or a koordlet, as a document.

    In a pod that knows its namespace the certificate is kept in a Secret, as in Koordinator, unless the
    environment sets another mode. Source: Koordinator, `pkg/webhook/util/util.go`.
    """
    found = {name: value for name, value in environment.items() if value}
    host = found.get("WEBHOOK_HOST")
    mode = found.get("WEBHOOK_CERT_WRITER") or ("fs" if host else None)
    if mode is None and "POD_NAMESPACE" in found and "KUBERNETES_SERVICE_HOST" in found:
        mode = "secret"
    port = found.get("WEBHOOK_PORT")
    if port is not None and not (port.isdecimal() and int(port) <= 65535):
        raise ConfigError(f"WEBHOOK_PORT: got {port!r}, expected a port number")
    if mode not in (None, "fs", "secret"):
        raise ConfigError(f"WEBHOOK_CERT_WRITER: got {mode!r}, expected 'fs' or 'secret'")
    admission: dict[str, Any] = {
        "port": int(port) if port else None,
        "certDir": found.get("WEBHOOK_CERT_DIR"),
        "certificates": {
            "mode": mode,
            "namespace": found.get("POD_NAMESPACE"),
            "secretName": found.get("SECRET_NAME"),
            "serviceName": found.get("SERVICE_NAME"),
            "host": host,
        },
        "registration": {
            "mutating": found.get("MUTATING_WEBHOOK_NAME"),
            "validating": found.get("VALIDATING_WEBHOOK_NAME"),
        },
    }
    agent = {"nodeName": found.get("NODE_NAME"), "mode": found.get("agent_mode")}
    document: dict[str, Any] = _laid_over({}, {"admission": admission, "agent": agent})
    return document


def _laid_over(document: Any, overrides: dict[str, Any]) -> Any:
    if not isinstance(document, dict):
        return document
    result = dict(document)
    for key, value in overrides.items():
        if value is None:
            continue
        result[key] = _laid_over(result.get(key) or {}, value) if isinstance(value, dict) else value
    return result
