"""The DeschedulerConfiguration file (`descheduler/v1alpha2`) of koord-descheduler, as models.

`loading` reads files. Source: Koordinator, `pkg/descheduler/apis/config/v1alpha2/types.go`.
"""

from typing import Annotated, Any

from pydantic import Field, PrivateAttr

from koordpy.api import config_writing
from koordpy.api.config_model import ConfigModel, Int32, NoEffect
from koordpy.api.config_writing import Written
from koordpy.descheduling.args import API_VERSION, GivenDuration, PluginArgs
from koordpy.descheduling.proof.settings import ProofSettings
from koordpy.descheduling.toolkit.selector import Selector
from koordpy.lib import duration

from .plugin_set import PluginSet

KIND = "DeschedulerConfiguration"

_PROFILES = NoEffect("profiles of a process are taken through the debug API (/debug/pprof)")
_LISTENER = NoEffect("/healthz and /metrics are served at debug.bindAddress and debug.port")

_EMPTY = Written(empty=True)

Unsigned = Annotated[int, Field(ge=0, le=2**64 - 1)]


class LeaderElection(ConfigModel):
    """The leader election."""

    leader_elect: bool = True
    lease_duration: GivenDuration = 15 * duration.SECOND
    renew_deadline: GivenDuration = 10 * duration.SECOND
    retry_period: GivenDuration = 2 * duration.SECOND
    resource_lock: Annotated[str, NoEffect("a Lease is always used", but="leases")] = "leases"
    resource_namespace: str = "koordinator-system"
    resource_name: str = "koord-descheduler"


class ClientConnection(ConfigModel):
    """The connection to the API server."""

    kubeconfig: Annotated[str, _EMPTY] = ""
    accept_content_types: Annotated[str, _EMPTY] = ""
    content_type: Annotated[str, _EMPTY] = ""
    qps: float = 0
    burst: Int32 = 0


class Plugins(ConfigModel):
    """Which plugins run at each point."""

    deschedule: PluginSet = Field(default_factory=PluginSet)
    balance: PluginSet = Field(default_factory=PluginSet)
    evict: PluginSet = Field(default_factory=PluginSet)
    filter: PluginSet = Field(default_factory=PluginSet)


class PluginConfig(ConfigModel):
    """Arguments of one plugin: `PluginArgs`, or a document that is decoded when the plugin is created."""

    name: Annotated[str, _EMPTY] = ""
    args: Any = None

    def written(self) -> dict[str, Any]:
        """Return the entry as a document; arguments have their type if their model is known."""
        args = self.args
        if isinstance(args, PluginArgs):
            args = {"apiVersion": API_VERSION, "kind": f"{self.name}Args"} | args.written()
        return {"name": self.name, "args": args}


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
    healthz_bind_address: Annotated[str | None, _LISTENER, _EMPTY] = None
    metrics_bind_address: Annotated[str | None, _LISTENER, _EMPTY] = None
    descheduling_interval: GivenDuration = 0
    """Nanoseconds from the start of one cycle to the start of the next; 0 or less: one cycle only."""
    dry_run: Annotated[bool, Written(empty=False)] = False
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
        """A line for each field, and for arguments of each plugin, without effect."""
        return self._without_effect

    def written(self) -> dict[str, Any]:
        """Return the configuration as a document, without empty fields, as koord-descheduler writes it."""
        bare = [profile.model_copy(update={"plugin_config": []}) for profile in self.profiles]
        document = config_writing.written(self.model_copy(update={"profiles": bare}))
        for profile, written in zip(self.profiles, document["profiles"], strict=True):
            if profile.plugin_config:
                written["pluginConfig"] = [entry.written() for entry in profile.plugin_config]
        return document
