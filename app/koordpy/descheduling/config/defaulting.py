"""Defaults of a DeschedulerConfiguration.

Source: Koordinator, `pkg/descheduler/apis/config/v1alpha2` (`defaults.go`, `default_plugins.go`); Kubernetes,
`k8s.io/component-base/config/v1alpha1` (`RecommendedDefaultLeaderElectionConfiguration`).
"""

import ipaddress
from typing import Final

from koordpy.api.catalogue import Catalogue
from koordpy.descheduling.interface import Plugin
from koordpy.lib import host_port

from .configuration import (
    ClientConnection,
    DeschedulerConfiguration,
    LeaderElection,
    PluginConfig,
    Plugins,
    Profile,
)
from .decoding import strict_args
from .plugin_set import merge

DEFAULT_PROFILE: Final = "koord-descheduler"
DEFAULT_PORT: Final = 10251
DEFAULT_HOST: Final = "0.0.0.0"
DEFAULT_PLUGINS: Final[dict[str, list[str]]] = {
    "deschedule": [],
    "balance": [],
    "evict": ["MigrationController"],
    "filter": ["MigrationController"],
}

_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


def set_defaults(config: DeschedulerConfiguration, catalogue: Catalogue[Plugin]) -> DeschedulerConfiguration:
    """Return the configuration with defaults for everything that was left out.

    Plugins that are enabled without arguments get theirs if their model is strict.
    """
    profiling, contention = config.enable_profiling, config.enable_contention_profiling
    profiling = True if profiling is None else profiling
    profiles = config.profiles or [Profile()]
    if len(profiles) == 1 and not profiles[0].name:
        profiles = [profiles[0].model_copy(update={"name": DEFAULT_PROFILE})]
    return config.model_copy(
        update={
            "leader_election": _election(config.leader_election),
            "client_connection": _connection(config.client_connection),
            "enable_profiling": profiling,
            "enable_contention_profiling": profiling if contention is None else contention,
            "healthz_bind_address": _address(config.healthz_bind_address),
            "metrics_bind_address": _address(config.metrics_bind_address),
            "profiles": [_profile(profile, catalogue) for profile in profiles],
        }
    )


def _election(given: LeaderElection) -> LeaderElection:
    """Zero times and empty names count as left out."""
    default = LeaderElection()
    names = (
        "lease_duration",
        "renew_deadline",
        "retry_period",
        "resource_lock",
        "resource_namespace",
        "resource_name",
    )
    return given.model_copy(update={name: getattr(given, name) or getattr(default, name) for name in names})


def _connection(given: ClientConnection) -> ClientConnection:
    update: dict[str, object] = {"qps": given.qps or 50, "burst": given.burst or 100}
    if not given.content_type:
        update |= {"content_type": _PROTOBUF, "accept_content_types": f"{_PROTOBUF},application/json"}
    return given.model_copy(update=update)


def _profile(given: Profile, catalogue: Catalogue[Plugin]) -> Profile:
    custom = given.plugins or Plugins()
    sets = {point: merge(names, getattr(custom, point)) for point, names in DEFAULT_PLUGINS.items()}
    configured = {entry.name for entry in given.plugin_config}
    enabled = {name for chosen in sets.values() for name in chosen.names}
    defaulted = [
        PluginConfig(name=name, args=model())
        for name in sorted(enabled - configured)
        if (model := strict_args(name, catalogue)) is not None
    ]
    return given.model_copy(
        update={"plugins": Plugins(**sets), "plugin_config": [*given.plugin_config, *defaulted]}
    )


def _address(address: str | None) -> str:
    if address is None:
        return host_port.join(DEFAULT_HOST, DEFAULT_PORT)
    try:
        host, port = host_port.split(address)
    except ValueError:
        return host_port.join(address, DEFAULT_PORT) if _is_ip(address) else address
    return host_port.join(host or DEFAULT_HOST, port)


def _is_ip(text: str) -> bool:
    if "%" in text:  # an address with a zone is none for Go's net.ParseIP
        return False
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
