"""KubeSchedulerConfiguration: the unchanged configuration file of kube-scheduler and koord-scheduler.

Koordinator ships it inside a ConfigMap; both forms load. Every field is validated. Fields that concern the
scheduler's own process (leader election, client connection, listeners) and have no effect in koordpy are
marked `NoEffect`; a warning at start names each one that a file sets.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from koordpy.api import config_document, config_file, config_model
from koordpy.api.config_model import ConfigError, ConfigModel, NoEffect, Seconds
from koordpy.api.field_error import FieldError, duplicate, invalid, required
from koordpy.api.resource_names import is_extended
from koordpy.scheduling.interface.plugin import API_VERSION

KIND = "KubeSchedulerConfiguration"

EXTENDER = "extender"
"""The component whose `NoEffect` fields concern koordpy beside kube-scheduler."""

_PROFILES = NoEffect("profiles of a process are taken through the debug API (/debug/pprof)")
_SEARCH = NoEffect("kube-scheduler decides how many nodes it sends", EXTENDER)

POINTS = (
    "pre_enqueue", "queue_sort", "pre_filter", "filter", "post_filter", "pre_score", "score", "reserve",
    "permit", "pre_bind", "bind", "post_bind",
)  # fmt: skip
"""The extension points at which a profile enables plugins."""


class PluginRef(ConfigModel):
    """A plugin by name; the weight counts for Score only, 0 means 1."""

    name: str
    weight: int = 0


class PluginSet(ConfigModel):
    """The plugins added to a point and those removed from its defaults (`*`: all)."""

    enabled: tuple[PluginRef, ...] = Field(default=(), strict=False)
    disabled: tuple[PluginRef, ...] = Field(default=(), strict=False)

    def disables(self, name: str) -> bool:
        """Return whether a default plugin is disabled."""
        return any(ref.name in (name, "*") for ref in self.disabled)


class Plugins(ConfigModel):
    """The plugin sets of a profile."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()

    def at(self, point: str) -> PluginSet:
        """Return the set of a point in `POINTS`."""
        plugin_set: PluginSet = getattr(self, point)
        return plugin_set


class PluginConfig(ConfigModel):
    """The arguments of one plugin, not yet decoded: the plugin knows their type."""

    name: str
    args: dict[str, Any] = {}


class Profile(ConfigModel):
    """The plugins that serve the pods of one scheduler name."""

    scheduler_name: str = "default-scheduler"
    percentage_of_nodes_to_score: Annotated[int | None, Field(ge=0, le=100), _SEARCH] = None
    plugins: Plugins | None = None
    plugin_config: tuple[PluginConfig, ...] = Field(default=(), strict=False)


class LeaderElection(ConfigModel):
    """kube-scheduler's leader election."""

    leader_elect: bool = True
    lease_duration: Seconds = 15.0
    renew_deadline: Seconds = 10.0
    retry_period: Seconds = 2.0
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(ConfigModel):
    """kube-scheduler's connection to the API server."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = Field(default=50.0, strict=False)
    burst: int = 100


class ExtenderTLSConfig(ConfigModel):
    """The TLS settings of an extender. Data fields are base64."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = Field(default="", alias="caFile")
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = Field(default="", alias="caData")


class ManagedResource(ConfigModel):
    """A resource whose pods an extender handles."""

    name: str
    ignored_by_scheduler: bool = False


class ExtenderConfig(ConfigModel):
    """An HTTP extender as kube-scheduler calls it."""

    url_prefix: str = Field(alias="urlPrefix")
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = Field(default=False, alias="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = Field(default=None, alias="tlsConfig")
    http_timeout: Seconds = Field(default=5.0, alias="httpTimeout")
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = Field(default=(), strict=False)
    ignorable: bool = False


class SchedulerConfiguration(ConfigModel):
    """A whole KubeSchedulerConfiguration."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"] = "kubescheduler.config.k8s.io/v1"
    kind: Literal["KubeSchedulerConfiguration"] = "KubeSchedulerConfiguration"
    parallelism: Annotated[
        int, Field(gt=0), NoEffect("nodes are filtered and scored all at once, by one thread")
    ] = 16
    leader_election: Annotated[
        LeaderElection, NoEffect("the settings extender.leaderElect and extender.lease decide", EXTENDER)
    ] = LeaderElection()
    client_connection: Annotated[
        ClientConnection, NoEffect("the settings under client decide, and requests are not limited")
    ] = ClientConnection()
    enable_profiling: Annotated[bool, _PROFILES] = True
    enable_contention_profiling: Annotated[bool, _PROFILES] = True
    percentage_of_nodes_to_score: Annotated[int | None, Field(ge=0, le=100), _SEARCH] = None
    pod_initial_backoff_seconds: int = Field(default=1, gt=0)
    pod_max_backoff_seconds: int = Field(default=10, gt=0)
    profiles: tuple[Profile, ...] = Field(default=(Profile(),), strict=False)
    extenders: Annotated[
        tuple[ExtenderConfig, ...],
        Field(strict=False),
        NoEffect("kube-scheduler calls extenders, koordpy is one", EXTENDER, but=()),
    ] = ()
    delay_cache_until_active: Annotated[
        bool, NoEffect("a process that waits for the lease follows the cluster already", but=False)
    ] = False


def load(path: Path) -> SchedulerConfiguration:
    """Read a file. Raises ConfigError naming the file, OSError when it cannot be read."""
    try:
        return parse(config_file.read(path))
    except ConfigError as error:
        raise error.under(path) from None


def parse(text: str) -> SchedulerConfiguration:
    """Read YAML or JSON: a KubeSchedulerConfiguration, or a ConfigMap that holds one. Raises ConfigError."""
    return read(config_document.parse(text, KIND))


def read(document: dict[str, Any]) -> SchedulerConfiguration:
    """Read a decoded KubeSchedulerConfiguration. Raises ConfigError."""
    config_model.check_type(document, API_VERSION, KIND)
    config = config_model.read(SchedulerConfiguration, document)
    if problems := _problems(config):
        raise ConfigError(*problems)
    return config


def _problems(config: SchedulerConfiguration) -> list[FieldError]:
    problems = [] if config.profiles else [required("profiles")]
    names: set[str] = set()
    for index, profile in enumerate(config.profiles):
        path = f"profiles[{index}]"
        if not profile.scheduler_name:
            problems.append(required(f"{path}.schedulerName"))
        elif profile.scheduler_name in names:
            problems.append(duplicate(f"{path}.schedulerName", profile.scheduler_name))
        names.add(profile.scheduler_name)
        configured: set[str] = set()
        for place, plugin in enumerate(profile.plugin_config):
            if plugin.name in configured:
                where = f"{path}.pluginConfig[{place}]"
                problems.append(FieldError(where, f"repeated config for plugin {plugin.name}"))
            configured.add(plugin.name)
    if config.pod_max_backoff_seconds < config.pod_initial_backoff_seconds:
        problems.append(
            invalid(
                "podMaxBackoffSeconds",
                config.pod_max_backoff_seconds,
                "must be greater than or equal to PodInitialBackoffSeconds",
            )
        )
    binders = sum(1 for extender in config.extenders if extender.bind_verb)
    if binders > 1:
        problems.append(FieldError("extenders", f"found {binders} extenders implementing bind, expected 1"))
    for index, extender in enumerate(config.extenders):
        if extender.prioritize_verb and extender.weight <= 0:
            path = f"extenders[{index}].weight"
            problems.append(invalid(path, extender.weight, "must have a positive weight applied to it"))
    return [*problems, *_resource_problems(config.extenders)]


def _resource_problems(extenders: Iterable[ExtenderConfig]) -> Iterator[FieldError]:
    """Yield kube-scheduler's errors about managed resources: each is an extended resource of one extender."""
    managed: set[str] = set()
    for index, extender in enumerate(extenders):
        for place, resource in enumerate(extender.managed_resources):
            path = f"extenders[{index}].managedResources[{place}].name"
            if not is_extended(resource.name):
                yield invalid(path, resource.name, "is an invalid extended resource name")
            if resource.name in managed:
                yield invalid(path, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
