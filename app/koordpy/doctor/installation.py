"""The subject of an examination: a cluster, and the koordpy features that the settings enable there.

The parts are built as `koordpy serve` and `koordpy worker` build them, on an unconnected cluster of their
own. This shows which plugins run, what they follow, and what is wrong with the configuration.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from koordpy import gates
from koordpy.admission import config as admission_config
from koordpy.admission.chain import Chain
from koordpy.admission.handler import Handle as AdmissionHandle
from koordpy.agent.engine.plugins import Installed as AgentPlugins
from koordpy.api.config_model import ConfigError
from koordpy.api.meta import KubeObject
from koordpy.api.needs import Right
from koordpy.api.scheme import Resource, resource_of
from koordpy.cluster import transformers
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.compose import trial_scheduling
from koordpy.compose.parts.debug import DebugPart
from koordpy.controllers import host as controller_host
from koordpy.descheduling.catalogue import installed as descheduling_catalogue
from koordpy.descheduling.config import loading as descheduling_config
from koordpy.descheduling.engine import completed
from koordpy.features import agent_services, catalog, parts
from koordpy.features.feature import Feature, Part, followed, following
from koordpy.lib.clock import Clock
from koordpy.lib.feature_gates import FeatureGateError, FeatureGates
from koordpy.scheduling.extender import light
from koordpy.scheduling.interface import Plugin
from koordpy.scheduling.interface.handle import Handle as SchedulingHandle
from koordpy.scheduling.profiles import config as scheduling_config
from koordpy.scheduling.profiles.config import SchedulerConfiguration
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.scheduling.profiles.registry import Place, build
from koordpy.settings import SERVING, Settings


@dataclass
class Installation:
    """The cluster behind `client`, and the enabled features.

    `scheduler` is kube-scheduler's configuration, None where none was given. `user` is whose rights are
    reviewed; empty for those of the client itself. `problems` are why the configuration is refused.
    """

    client: Client
    settings: Settings
    parts: tuple[Part, ...]
    clock: Clock
    scheduler: SchedulerConfiguration | None = None
    user: str = ""
    cluster: Cluster = field(default_factory=Cluster)
    profiles: Profiles = field(default_factory=Profiles)
    chains: dict[str, Chain] = field(default_factory=dict)
    features: list[Feature] = field(default_factory=list)
    follows: dict[Part, tuple[Resource, ...]] = field(default_factory=dict)
    """The resources that each part follows, for itself and for its features."""
    problems: list[str] = field(default_factory=list)
    gates: FeatureGates = field(default_factory=lambda: FeatureGates({}))
    """Those of the extender."""

    def __post_init__(self) -> None:
        make = {
            Part.ADMISSION: self._webhooks,
            Part.EXTENDER: self._extender,
            Part.CONTROLLERS: self._controllers,
            Part.DESCHEDULER: self._descheduler,
            Part.AGENT: self._qos,
        }
        for part in self.parts:
            try:
                make[part]()
            except ConfigError as error:
                self.problems.extend(error.problems)
            except (FeatureGateError, OSError) as error:
                self.problems.append(str(error))

    # --- what is enabled ---------------------------------------------------------------------------

    def _webhooks(self) -> None:
        settings, cluster = self.settings.admission, Cluster(self.clock)
        config = admission_config.AdmissionConfig(
            enabled=list(settings.enabled), disabled=list(settings.disabled), history=settings.history
        )
        chosen = gates.chosen(gates.serving(), self.settings.feature_gates)
        handle = AdmissionHandle(cluster, chosen, catalog.NO_CHANCE, self.clock)
        self.chains = admission_config.build_chains(config, handle)
        self.features += [
            catalog.handler(type(handler), handler.args)
            for chain in self.chains.values()
            for handler in chain.handlers
        ]
        self.follows[Part.ADMISSION] = followed(store.type for store in cluster.stores)

    def _extender(self) -> None:
        settings = self.settings.extender
        base = SchedulingHandle(self.cluster, clock=self.clock)
        file = settings.profiles_file
        config = scheduling_config.load(file)
        self.gates = gates.chosen(gates.serving(), self.settings.feature_gates)
        try:
            self.profiles = build(
                config,
                lambda _: base.sibling(),
                place=Place.EXTENDER,
                skip_missing=settings.skip_missing_plugins,
                gates=self.gates,
            )
        except ConfigError as error:
            raise error.under(file) from None
        plugins = sorted(self.plugins, key=lambda plugin: plugin.name)
        self.features += [catalog.scheduling_plugin(type(plugin), plugin.args) for plugin in plugins]
        self.features += parts.switched(self.settings)
        resources = set(followed(store.type for store in self.cluster.stores))
        resources |= set(catalog.frame_follows(Part.EXTENDER))
        own = [feature for feature in self.features if feature.part is Part.EXTENDER]
        resources |= {found for feature in own for found in feature.follows}
        self.follows[Part.EXTENDER] = tuple(sorted(resources, key=lambda r: (r.group, r.plural)))
        if settings.mode == "light":
            light.check(self.profiles.frameworks.values())

    def _controllers(self) -> None:
        installed = controller_host.installed()
        settings = self.settings.worker.controllers
        chosen = gates.chosen(controller_host.gate_specs(installed), self.settings.feature_gates)
        names = {
            controller.name
            for controller in controller_host.build(
                installed, settings.selection, settings.args, catalog.controller_handle(chosen)
            )
        }
        self._add(Part.CONTROLLERS, names)

    def _descheduler(self) -> None:
        file = self.settings.worker.descheduler.config
        if file is None:
            raise ConfigError("worker.descheduler.config: got none, expected a DeschedulerConfiguration file")
        catalogue = descheduling_catalogue()
        config = descheduling_config.load_file(Path(file), catalogue)
        names = {
            name
            for profile in config.profiles
            if (sets := profile.plugins) is not None
            for point in (sets.deschedule, sets.balance, sets.evict, sets.filter)
            for name in point.names
        }
        proof = {catalog.PROOF} if config.proves else set()
        tried = trial_scheduling.follows(self.settings) if config.proves else ()
        self._add(Part.DESCHEDULER, names | proof)
        if tried:
            resources = {*self.follows[Part.DESCHEDULER], *followed(tried)}
            self.follows[Part.DESCHEDULER] = tuple(sorted(resources, key=lambda r: (r.group, r.plural)))
        if all(name in catalogue for name in names):  # others are named already
            try:
                completed.inspected(config, catalogue, self.descheduling_gates)
            except ConfigError as error:
                raise error.under(file) from None

    @property
    def descheduling_gates(self) -> FeatureGates:
        """The feature gates of the descheduler. Raises FeatureGateError."""
        specs = {**gates.serving(admission=False), **transformers.SPECS}
        known = descheduling_catalogue().feature_gates(specs, skip_broken=True)
        return gates.chosen(known, self.settings.feature_gates)

    def _qos(self) -> None:
        installed = AgentPlugins.find()
        chosen = gates.chosen(installed.gate_specs(), self.settings.feature_gates)
        self._add(
            Part.AGENT,
            {type_.name for type_ in installed.types() if type_.is_switched_on(chosen)}
            | {feature.name for feature in agent_services.switched(self.settings)},
        )

    def _add(self, part: Part, names: Iterable[str]) -> None:
        wanted = set(names)
        found = [feature for feature in catalog.features() if feature.part is part and feature.name in wanted]
        self.features += found
        self.problems += [
            f"{part.value}: plugin {name!r} is configured and not installed"
            for name in sorted(wanted - {feature.name for feature in found})
        ]
        resources = {resource for feature in found for resource in feature.follows}
        resources |= set(catalog.frame_follows(part))
        self.follows[part] = tuple(sorted(resources, key=lambda r: (r.group, r.plural)))

    # --- what follows from it ----------------------------------------------------------------------

    @property
    def plugins(self) -> list[Plugin]:
        """The enabled scheduling plugins of all profiles; one of each class and set of arguments."""
        seen: dict[tuple[type[Plugin], str], Plugin] = {}
        for framework in self.profiles.frameworks.values():
            for plugin in framework.plugins:
                seen.setdefault((type(plugin), repr(plugin.args)), plugin)
        return list(seen.values())

    def unchecked(self, part: Part, *plugins: str) -> str:
        """Return why nothing of a part, or of these scheduling plugins, can be examined; empty if it can."""
        if part not in self.parts:
            return f"part {part.value} is not among the parts"
        if self.problems:
            return "koordpy does not start with its configuration"
        if plugins and not {plugin.name for plugin in self.plugins} & {*plugins}:
            return f"no profile has {' or '.join(plugins)}"
        return ""

    def needed_by(self, resource: Resource) -> list[str]:
        """Return the enabled features (or parts) that follow a resource."""
        names = list(dict.fromkeys(f.name for f in self.features if resource in f.follows))
        frames = [part.value for part, resources in self.follows.items() if resource in resources]
        return names or frames

    def rights(self) -> Iterator[tuple[Right, list[str]]]:
        """Yield the rights that are needed with the enabled gates, each with what needs it."""
        needed: dict[Right, list[str]] = {}
        for part, resources in self.follows.items():
            leads = any(feature.leads for feature in self.features if feature.part is part)
            for right in parts.rights(part, self.settings, leads=leads):
                needed.setdefault(right, []).append(part.value)
            for resource in resources:
                for right in following([resource]):
                    needed.setdefault(right, []).extend(self.needed_by(resource))
        for right in DebugPart.needs(self.settings).rights:
            needed.setdefault(right, []).append(DebugPart.name)
        is_light = self.settings.extender.mode == "light"
        for feature in self.features:
            for right in feature.rights:
                if right.gate and not (right.gate in self.gates and self.gates.enabled(right.gate)):
                    continue
                if not (is_light and feature.part is Part.EXTENDER and right.resource == "pods/binding"):
                    needed.setdefault(replace(right, gate=""), []).append(feature.name)
        for right, names in sorted(needed.items()):
            yield right, list(dict.fromkeys(names))

    def types(self, plugin: Plugin) -> list[type[KubeObject]]:
        """Return the resources that a scheduling plugin follows."""
        follows = catalog.scheduling_plugin(type(plugin), plugin.args).follows
        return [store.type for store in self.cluster.stores if resource_of(store.type) in follows]


def parts_of(settings: Settings) -> tuple[Part, ...]:
    """Return the parts that settings choose, by default those of `koordpy serve`; debug aside."""
    known = known_parts()
    return tuple(Part(name) for name in settings.parts or SERVING if name in known)


def known_parts() -> list[str]:
    """Return the names of all parts."""
    return [part.value for part in Part]
