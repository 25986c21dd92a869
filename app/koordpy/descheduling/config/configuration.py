"""The DeschedulerConfiguration file (`descheduler/v1alpha2`) of koord-descheduler.

`load` strictly reads the bare document or a ConfigMap that holds it, fills in the defaults and validates it.
The plugins' own arguments are decoded later, when the plugins are created (`framework`). Source: Koordinator,
`pkg/descheduler/apis/config/v1alpha2` and `.../validation`.
"""

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, PrivateAttr

from koordpy.api import config_document, config_file, config_model
from koordpy.api.config_model import ConfigError, ConfigModel, Duration, NoEffect, without_effect
from koordpy.api.field_error import FieldError, duplicate, invalid, required
from koordpy.descheduling.args import API_VERSION
from koordpy.descheduling.proof.settings import ProofSettings, proof_errors
from koordpy.descheduling.toolkit.selector import Selector, selector_errors
from koordpy.lib import duration

from .plugin_set import PluginSet, merge

KIND = "DeschedulerConfiguration"
DEFAULT_PROFILE = "koord-descheduler"
DEFAULT_PORT = 10251
DEFAULT_ADDRESS = f"0.0.0.0:{DEFAULT_PORT}"

_DNS_NAME = re.compile(
    r"(?=.{1,253}$)(?:[a-z0-9]([-a-z0-9]*[a-z0-9])?\.)*[a-z]([-a-z0-9]*[a-z0-9])?", re.IGNORECASE
)
_PROTOBUF = "application/vnd.kubernetes.protobuf"

_PROFILES = NoEffect("profiles of a process are taken through the debug API (/debug/pprof)")
_LISTENER = NoEffect("/healthz and /metrics are served at debug.bindAddress and debug.port")

Unsigned = Annotated[int, Field(ge=0, le=2**64 - 1)]


class LeaderElection(ConfigModel):
    """The leader election."""

    leader_elect: bool = True
    lease_duration: Duration = 15 * duration.SECOND
    renew_deadline: Duration = 10 * duration.SECOND
    retry_period: Duration = 2 * duration.SECOND
    resource_lock: Annotated[str, NoEffect("a Lease is always used", but="leases")] = "leases"
    resource_namespace: str = "koordinator-system"
    resource_name: str = "koord-descheduler"


class ClientConnection(ConfigModel):
    """The connection to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0
    burst: int = 0


class Plugins(ConfigModel):
    """Which plugins run at each point."""

    deschedule: PluginSet = Field(default_factory=PluginSet)
    balance: PluginSet = Field(default_factory=PluginSet)
    evict: PluginSet = Field(default_factory=PluginSet)
    filter: PluginSet = Field(default_factory=PluginSet)


class PluginConfig(ConfigModel):
    """Arguments of one plugin, not decoded yet."""

    name: str = ""
    args: dict[str, Any] | None = None


class Profile(ConfigModel):
    """A set of plugins, and the nodes that they process."""

    name: str = ""
    node_selector: Selector | None = None
    plugins: Plugins | None = None
    plugin_config: list[PluginConfig] = []
    proof: ProofSettings | None = None
    """Whether evictions must be proved first; Koordinator does not have this field."""


class DeschedulerConfiguration(ConfigModel):
    """The whole file."""

    api_version: str = API_VERSION
    kind: str = KIND
    leader_election: LeaderElection = Field(default_factory=LeaderElection)
    client_connection: Annotated[
        ClientConnection, NoEffect("the settings under client decide, and requests are not limited")
    ] = Field(default_factory=ClientConnection)
    enable_profiling: Annotated[bool | None, _PROFILES] = None
    enable_contention_profiling: Annotated[bool | None, _PROFILES] = None
    healthz_bind_address: Annotated[str | None, _LISTENER] = None
    metrics_bind_address: Annotated[str | None, _LISTENER] = None
    descheduling_interval: Duration = 0
    """Nanoseconds from the start of one cycle to the start of the next; 0: one cycle only."""
    dry_run: bool = False
    profiles: list[Profile] = []
    node_selector: Selector | None = None
    max_no_of_pods_to_evict_per_node: Unsigned | None = None
    max_no_of_pods_to_evict_per_namespace: Unsigned | None = None
    max_no_of_pods_to_evict_total: Unsigned | None = None
    _without_effect: tuple[str, ...] = PrivateAttr(())

    @property
    def proves(self) -> bool:
        """Whether a profile proves evictions."""
        return any(profile.proof is not None and profile.proof.enabled for profile in self.profiles)

    @property
    def without_effect(self) -> tuple[str, ...]:
        """A line for each field that the file sets and that has no effect here."""
        return self._without_effect


DEFAULT_PLUGINS: dict[str, list[str]] = {
    "deschedule": [],
    "balance": [],
    "evict": ["MigrationController"],
    "filter": ["MigrationController"],
}


def load_file(path: Path) -> DeschedulerConfiguration:
    """Read, default and validate a file. Raises ConfigError naming the file, OSError."""
    try:
        return load(config_file.read(path))
    except ConfigError as error:
        raise error.under(path) from None


def load(text: str) -> DeschedulerConfiguration:
    """Read, default and validate a configuration. Raises ConfigError."""
    document = config_document.parse(text, KIND)
    config_model.check_type(document, API_VERSION, KIND)
    given = config_model.read(DeschedulerConfiguration, document)
    config = set_defaults(given)
    if errors := validate(config):
        raise ConfigError(*errors)
    config._without_effect = tuple(without_effect(given))
    return config


def set_defaults(config: DeschedulerConfiguration) -> DeschedulerConfiguration:
    """Return the configuration with defaults for everything that was left out."""
    profiling, contention = config.enable_profiling, config.enable_contention_profiling
    profiling = True if profiling is None else profiling
    profiles = config.profiles or [Profile()]
    if len(profiles) == 1 and not profiles[0].name:
        profiles = [profiles[0].model_copy(update={"name": DEFAULT_PROFILE})]
    return config.model_copy(
        update={
            "client_connection": _default_connection(config.client_connection),
            "enable_profiling": profiling,
            "enable_contention_profiling": profiling if contention is None else contention,
            "healthz_bind_address": _default_address(config.healthz_bind_address),
            "metrics_bind_address": _default_address(config.metrics_bind_address),
            "profiles": [_with_default_plugins(profile) for profile in profiles],
        }
    )


def _default_connection(given: ClientConnection) -> ClientConnection:
    accepts = given.accept_content_types
    if not given.content_type:
        accepts = accepts or f"{_PROTOBUF},application/json"
    return given.model_copy(
        update={
            "content_type": given.content_type or _PROTOBUF,
            "accept_content_types": accepts,
            "qps": given.qps or 50,
            "burst": given.burst or 100,
        }
    )


def _with_default_plugins(profile: Profile) -> Profile:
    custom = profile.plugins or Plugins()
    sets = {point: merge(names, getattr(custom, point)) for point, names in DEFAULT_PLUGINS.items()}
    return profile.model_copy(update={"plugins": Plugins(**sets)})


def validate(config: DeschedulerConfiguration) -> list[FieldError]:
    """Return all errors in a defaulted configuration."""
    errors = _leader_election_errors(config.leader_election)
    if config.client_connection.burst < 0:
        errors.append(
            invalid("clientConnection.burst", config.client_connection.burst, "must be non-negative")
        )
    if config.descheduling_interval < 0:
        interval = duration.format(config.descheduling_interval)
        errors.append(
            invalid("deschedulingInterval", interval, "must be greater than or equal to 0 (0: run once)")
        )
    if not config.profiles:
        errors.append(required("profiles"))
    seen: set[str] = set()
    for index, profile in enumerate(config.profiles):
        path = f"profiles[{index}]"
        if not profile.name:
            errors.append(required(f"{path}.name"))
        elif profile.name in seen:
            errors.append(duplicate(f"{path}.name", profile.name))
        seen.add(profile.name)
        errors += selector_errors(f"{path}.nodeSelector", profile.node_selector)
        errors += proof_errors(f"{path}.proof", profile.proof)
        names: set[str] = set()
        for position, entry in enumerate(profile.plugin_config):
            if entry.name in names:
                errors.append(duplicate(f"{path}.pluginConfig[{position}]", entry.name))
            names.add(entry.name)
    errors += _address_errors("healthzBindAddress", config.healthz_bind_address)
    errors += _address_errors("metricsBindAddress", config.metrics_bind_address)
    errors += selector_errors("nodeSelector", config.node_selector)
    return errors


def _default_address(address: str | None) -> str:
    if not address:
        return DEFAULT_ADDRESS
    host, colon, port = address.rpartition(":")
    if colon and not host and port:
        return f"0.0.0.0:{port}"
    try:
        bare = ipaddress.ip_address(address)
    except ValueError:
        return address
    return f"[{bare}]:{DEFAULT_PORT}" if bare.version == 6 else f"{bare}:{DEFAULT_PORT}"


def _address_errors(path: str, address: str | None) -> list[FieldError]:
    if address is None:
        return []
    host, colon, port = address.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or (":" in host and not bracketed):
        detail = "missing port in address" if not colon else "too many colons in address"
        return [
            invalid(path, address, f"must be a valid socket address (host:port), got error: {detail}"),
        ]
    errors = []
    host = host[1:-1] if bracketed else host
    if not _is_host(host):
        errors.append(invalid(path, address, f'invalid host "{host}" in socket address'))
    if not port:
        errors.append(invalid(path, address, "port must not be empty in socket address"))
    return errors


def _is_host(host: str) -> bool:
    """Whether a host is an address or could be a name; Koordinator also resolves the name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return _DNS_NAME.fullmatch(host) is not None
    return True


def _leader_election_errors(election: LeaderElection) -> list[FieldError]:
    if not election.leader_elect:
        return []
    path = "leaderElection"
    errors = [
        invalid(f"{path}.{name}", duration.format(value), "must be greater than zero")
        for name, value in (
            ("leaseDuration", election.lease_duration),
            ("renewDeadline", election.renew_deadline),
            ("retryPeriod", election.retry_period),
        )
        if value <= 0
    ]
    if election.lease_duration <= election.renew_deadline:
        errors.append(
            invalid(
                f"{path}.leaseDuration",
                duration.format(election.lease_duration),
                "must be greater than renewDeadline",
            )
        )
    errors += [
        invalid(f"{path}.{name}", value, f"{name} is required")
        for name, value in (
            ("resourceLock", election.resource_lock),
            ("resourceNamespace", election.resource_namespace),
            ("resourceName", election.resource_name),
        )
        if not value
    ]
    return errors
