"""The DeschedulerConfiguration file (`descheduler/v1alpha2`), as users of koord-descheduler have it.

`load` reads the bare document or a ConfigMap that holds it, strictly, fills in the defaults and validates it.
What the plugins' own arguments mean is the plugins' business; `profile` decodes them once the plugins are
known. Source: Koordinator, `pkg/descheduler/apis/config/v1alpha2` and `.../validation`.
"""

import ipaddress
import re
from typing import Annotated, Any

import yaml
from pydantic import Field

from koordpy.api.field_error import FieldError, aggregate, duplicate, invalid, required
from koordpy.lib import duration

from .config_model import API_VERSION, ConfigError, ConfigModel, Duration, Selector, decode, selector_errors
from .plugin_set import PluginSet, merge

KIND = "DeschedulerConfiguration"
DEFAULT_PROFILE = "koord-descheduler"
DEFAULT_PORT = 10251
DEFAULT_ADDRESS = f"0.0.0.0:{DEFAULT_PORT}"

_DNS_NAME = re.compile(
    r"(?=.{1,253}$)(?:[a-z0-9]([-a-z0-9]*[a-z0-9])?\.)*[a-z]([-a-z0-9]*[a-z0-9])?", re.IGNORECASE
)
_PROTOBUF = "application/vnd.kubernetes.protobuf"

Unsigned = Annotated[int, Field(ge=0, le=2**64 - 1)]


class LeaderElection(ConfigModel):
    """Which Lease makes a process the one that acts."""

    leader_elect: bool = True
    lease_duration: Duration = 15 * duration.SECOND
    renew_deadline: Duration = 10 * duration.SECOND
    retry_period: Duration = 2 * duration.SECOND
    resource_lock: str = "leases"
    resource_namespace: str = "koordinator-system"
    resource_name: str = "koord-descheduler"


class ClientConnection(ConfigModel):
    """How the process reaches the API server."""

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
    """Arguments of one plugin, not looked into yet."""

    name: str = ""
    args: dict[str, Any] | None = None


class Profile(ConfigModel):
    """A set of plugins, and the nodes that they look at."""

    name: str = ""
    node_selector: Selector | None = None
    plugins: Plugins | None = None
    plugin_config: list[PluginConfig] = []


class DeschedulerConfiguration(ConfigModel):
    """The whole file."""

    api_version: str = API_VERSION
    kind: str = KIND
    leader_election: LeaderElection = Field(default_factory=LeaderElection)
    client_connection: ClientConnection = Field(default_factory=ClientConnection)
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    healthz_bind_address: str | None = None
    metrics_bind_address: str | None = None
    descheduling_interval: Duration = 0
    """Nanoseconds from the start of one cycle to the start of the next; 0: one cycle only."""
    dry_run: bool = False
    profiles: list[Profile] = []
    node_selector: Selector | None = None
    max_no_of_pods_to_evict_per_node: Unsigned | None = None
    max_no_of_pods_to_evict_per_namespace: Unsigned | None = None
    max_no_of_pods_to_evict_total: Unsigned | None = None


DEFAULT_PLUGINS = {
    "deschedule": [],
    "balance": [],
    "evict": ["MigrationController"],
    "filter": ["MigrationController"],
}


def load(text: str) -> DeschedulerConfiguration:
    """Read, default and validate a configuration. Raises ConfigError."""
    document = _unwrapped(_parse(text))
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(field) != expected:
            raise ConfigError(f"{field}: {document.get(field)!r}: expected {expected!r}")
    config = set_defaults(decode(DeschedulerConfiguration, document, ""))
    if errors := validate(config):
        raise ConfigError(aggregate(errors))
    return config


def set_defaults(config: DeschedulerConfiguration) -> DeschedulerConfiguration:
    """Return the configuration with everything filled in that was left out."""
    config = config.model_copy(deep=True)
    if config.enable_profiling is None:
        config.enable_profiling = True
    if config.enable_contention_profiling is None:
        config.enable_contention_profiling = config.enable_profiling
    config.healthz_bind_address = _default_address(config.healthz_bind_address)
    config.metrics_bind_address = _default_address(config.metrics_bind_address)
    connection = config.client_connection
    if not connection.content_type:
        connection.content_type = _PROTOBUF
        connection.accept_content_types = connection.accept_content_types or f"{_PROTOBUF},application/json"
    connection.qps = connection.qps or 50
    connection.burst = connection.burst or 100
    config.profiles = config.profiles or [Profile()]
    if len(config.profiles) == 1 and not config.profiles[0].name:
        config.profiles[0].name = DEFAULT_PROFILE
    for profile in config.profiles:
        custom = profile.plugins or Plugins()
        profile.plugins = Plugins(
            deschedule=merge(DEFAULT_PLUGINS["deschedule"], custom.deschedule),
            balance=merge(DEFAULT_PLUGINS["balance"], custom.balance),
            evict=merge(DEFAULT_PLUGINS["evict"], custom.evict),
            filter=merge(DEFAULT_PLUGINS["filter"], custom.filter),
        )
    return config


def validate(config: DeschedulerConfiguration) -> list[FieldError]:
    """Return everything that is wrong with a defaulted configuration."""
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
        names: set[str] = set()
        for position, entry in enumerate(profile.plugin_config):
            if entry.name in names:
                errors.append(duplicate(f"{path}.pluginConfig[{position}]", entry.name))
            names.add(entry.name)
    errors += _address_errors("healthzBindAddress", config.healthz_bind_address)
    errors += _address_errors("metricsBindAddress", config.metrics_bind_address)
    errors += selector_errors("nodeSelector", config.node_selector)
    return errors


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses a key given twice and leaves times as texts."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise ConfigError(f"line {key_node.start_mark.line + 1}: field {key!r} is given twice")
            seen.add(key)
        return super().construct_mapping(node, deep=deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _parse(text: str) -> dict[str, Any]:
    try:
        document = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {error}") from None
    if not isinstance(document, dict):
        raise ConfigError(f"expected a {KIND} document, got {type(document).__name__}")
    return document


def _unwrapped(document: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration inside a ConfigMap, or the document itself."""
    if document.get("apiVersion") != "v1" or document.get("kind") != "ConfigMap":
        return document
    data = document.get("data") or {}
    found = [
        inner
        for inner in (_parse(text) for text in data.values() if f"kind: {KIND}" in text)
        if inner.get("kind") == KIND
    ]
    if len(found) != 1:
        name = (document.get("metadata") or {}).get("name", "")
        raise ConfigError(
            f"ConfigMap {name!r}: expected one {KIND} among its keys ({', '.join(data) or 'none'}), "
            f"found {len(found)}"
        )
    return found[0]


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
    """Whether a host is an address or could be a name; Koordinator also looks the name up."""
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
