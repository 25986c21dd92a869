"""From a configuration and the installed plugins to running profiles.

Plugins are found by entry points (group `koordpy.scheduling`), both in-tree and third-party ones. Which
plugin runs at which point follows kube-scheduler's rules: defaults, `multiPoint`, explicit sets, `*`.

A profile runs in one of two places:

* `Place.SCHEDULER`: koordpy is the scheduler itself. A profile starts from kube-scheduler's default plugins.
* `Place.EXTENDER`: beside kube-scheduler, which runs its own plugins. A profile starts from `DefaultBinder`
alone, and in-tree plugins that koordpy does not have are left to kube-scheduler. In-tree filters run again if
a plugin shows nodes or pods that kube-scheduler does not see (`Plugin.reruns`).

Beside kube-scheduler a profile also has a *whole* framework: the same plugin instances and kube-scheduler's
in-tree ones, for cycles that kube-scheduler does not run (what-ifs, Reservations, preemption trials).

A plugin that is not installed makes the configuration invalid, unless it is one of Koordinator's own: these
are left out and listed in `Profiles.missing`, so that a koord-scheduler's file works with the available
plugins. With `skip_missing` this applies to every plugin.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache

from koordpy.api import plugin_set
from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.field_error import FieldError
from koordpy.api.plugin import PluginArgs
from koordpy.api.plugin_errors import PluginError
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.gates import RESIZE_POD, SPECS
from koordpy.scheduling.interface.handle import Handle

from ..interface import Plugin, ResizePod
from .config import POINTS, PluginRef, Plugins, PluginSet, Profile, SchedulerConfiguration
from .in_tree import AT_POINTS, DEFAULT_PLUGINS, IN_TREE, ROLES
from .profiles import Profiles

log = logging.getLogger(__name__)

GROUP = "koordpy.scheduling"

_DEFAULT_PRE_BIND = "DefaultPreBind"


class Place(Enum):
    """Where a profile runs."""

    SCHEDULER = "scheduler"
    EXTENDER = "extender"


@cache
def installed() -> Catalogue[Plugin]:
    """Return the installed plugins. Raises DuplicateName."""
    return Catalogue(GROUP, Plugin)


def build(
    config: SchedulerConfiguration,
    handle_of: Callable[[Profile], Handle],
    *,
    place: Place,
    classes: Mapping[str, type[Plugin]] | None = None,
    skip_missing: bool = False,
    gates: FeatureGates | None = None,
) -> Profiles:
    """Create every profile of a configuration. Raises ConfigError with all problems found.

    `classes` are the plugins to choose from, by default the installed ones. `gates` are those of
    `koordpy.scheduling.interface.gates` and of the plugins; None means their defaults.
    """
    local = frozenset(profile.scheduler_name for profile in config.profiles)
    known = _catalogue(classes)
    built = Profiles()
    problems: list[str] = []
    for index, profile in enumerate(config.profiles):
        try:
            handle = handle_of(profile)
            handle.is_scheduler = place is Place.SCHEDULER
            plan = _Plan(profile, f"profiles[{index}]", place, known, skip_missing, built)
            framework = built.frameworks[profile.scheduler_name] = plan.build(handle, gates, local)
            if place is Place.EXTENDER:
                built.wholes[profile.scheduler_name] = plan.whole().build(handle, gates, local)
            # The handle's framework covers all of scheduling, in either place.
            handle.attach(built.wholes.get(profile.scheduler_name, framework))
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(*problems)
    return built


def _catalogue(classes: Mapping[str, type[Plugin]] | None) -> Catalogue[Plugin]:
    if classes is None:
        return installed()
    return classes if isinstance(classes, Catalogue) else Catalogue.of(GROUP, Plugin, classes.values())


class _Plan:
    """Plans one profile."""

    def __init__(
        self,
        profile: Profile,
        path: str,
        place: Place,
        known: Catalogue[Plugin],
        skip_missing: bool,
        built: Profiles,
    ) -> None:
        self.profile, self.path, self.place, self.known = profile, path, place, known
        self.skip_missing, self.built = skip_missing, built
        self.made: dict[str, Plugin] = {}
        self.is_whole = False
        self.problems: list[FieldError | str] = []
        self.weights: dict[str, int] = {}
        self.plugins = _with_default_pre_bind(profile.plugins or Plugins(), known)

    def whole(self) -> "_Plan":
        """Return the plan of the same profile, and plugins, with kube-scheduler's in-tree plugins."""
        plan = _Plan(self.profile, self.path, Place.SCHEDULER, self.known, self.skip_missing, Profiles())
        plan.made, plan.is_whole = self.made, True
        return plan

    def build(self, handle: Handle, gates: FeatureGates | None, local: frozenset[str]) -> Framework:
        multi_point = self._multi_point()
        names = {point: self._names_at(point, multi_point) for point in POINTS}
        reruns = self._reruns(names) if self.place is Place.EXTENDER else frozenset()
        ordered = dict.fromkeys(
            [ref.name for ref in multi_point] + [name for point in POINTS for name in names[point]]
        )
        used = [name for name in ordered if any(name in at for at in names.values()) or self._is_beside(name)]
        gates = gates or self._default_gates(used)
        self._note_idle(ordered, used, gates)
        read = self._arguments()
        self._check_counts(names)
        self._check_gates(used, gates)
        if self.problems:
            raise ConfigError(*self.problems)
        handle.gates = gates
        for name in used:
            if name not in self.made:
                path = f"{self.path}.pluginConfig[{name}].args"
                path, args = read.get(name) or (path, self.known[name].read_args(None, path))
                self.made[name] = self.known.make(name, args, handle, path)
        enabled = {point: [self.made[name] for name in at] for point, at in names.items()}
        return Framework(
            self.profile.scheduler_name,
            [self.made[name] for name in used],
            enabled,
            self.weights,
            handle,
            gates=gates,
            local_schedulers=local,
            reruns=reruns,
        )

    def _note_idle(self, ordered: Iterable[str], used: Sequence[str], gates: FeatureGates) -> None:
        """Warn of enabled plugins that will never be called."""
        if self.is_whole:
            return
        for name in ordered:
            kinds = self.known[name]
            if name not in used:
                log.warning(
                    "%s: plugin %s does nothing: multiPoint enables it, but all of its points are disabled"
                    " (those that files do not list, such as FindOneNode, are then not called either)",
                    self.path, name,
                )  # fmt: skip
            elif issubclass(kinds, ResizePod) and not (RESIZE_POD in gates and gates.enabled(RESIZE_POD)):
                if issubclass(kinds, AT_POINTS):
                    log.debug(
                        "%s: plugin %s: its ResizePod is not called: gate %s", self.path, name, RESIZE_POD
                    )
                    continue
                log.warning(
                    "%s: plugin %s: its ResizePod is never called, and it has no other point: enable feature"
                    " gate %s",
                    self.path, name, RESIZE_POD,
                )  # fmt: skip

    def _is_beside(self, name: str) -> bool:
        """Return whether a plugin has no point that files enable, only others: FindOneNode, say."""
        return not issubclass(self.known[name], AT_POINTS)

    def _multi_point(self) -> list[PluginRef]:
        """The defaults, changed by the profile's own multiPoint set."""
        custom = self.plugins.multi_point
        defaults = DEFAULT_PLUGINS if self.place is Place.SCHEDULER else (PluginRef(name="DefaultBinder"),)
        path = f"{self.path}.plugins.multiPoint"
        listed = [ref.name for ref in custom.enabled]
        found: list[PluginRef] = []
        for ref in plugin_set.merge(defaults, custom.enabled, {ref.name for ref in custom.disabled}):
            where = f"{path}.enabled[{listed.index(ref.name)}].name" if ref.name in listed else path
            if any(other.name == ref.name for other in found):
                again = f'plugin "{ref.name}" already registered as "multiPoint"'
                self.problems.append(FieldError(where, again))
            elif self._is_known(ref.name, where, default=ref.name not in listed):
                found.append(ref)
        return found

    def _names_at(self, point: str, multi_point: Sequence[PluginRef]) -> list[str]:
        own: PluginSet = self.plugins.at(point)
        path = f"{self.path}.plugins.{_camel(point)}.enabled"
        explicit: list[str] = []
        for place, ref in enumerate(own.enabled):
            where = f"{path}[{place}].name"
            if ref.name in explicit:
                self.problems.append(
                    FieldError(where, f'plugin "{ref.name}" already registered as "{_camel(point)}"')
                )
            elif self._is_known(ref.name, where):
                if not issubclass(self.known[ref.name], ROLES[point]):
                    self.problems.append(
                        FieldError(where, f'plugin "{ref.name}" does not extend {_camel(point)} plugin')
                    )
                explicit.append(ref.name)
                if point == "score":
                    self.weights[ref.name] = ref.weight or 1
        if any(ref.name == plugin_set.ALL for ref in own.disabled):
            return explicit
        both, rest = [], []
        for ref in multi_point:
            if not issubclass(self.known[ref.name], ROLES[point]):
                continue
            if ref.name in explicit:
                both.append(ref.name)
            elif not own.disables(ref.name):
                rest.append(ref.name)
            if point == "score":
                self.weights.setdefault(ref.name, ref.weight or 1)
        return [
            *(name for name in explicit if name in both),
            *rest,
            *(name for name in explicit if name not in both),
        ]

    def _reruns(self, names: Mapping[str, list[str]]) -> frozenset[str]:
        """Prepend the in-tree filters that must run again for enabled plugins; return their names."""
        wanted = {again for at in names.values() for name in at for again in self.known[name].reruns}
        reruns: set[str] = set()
        for point in ("pre_filter", "filter"):
            added = [
                ref.name
                for ref in DEFAULT_PLUGINS
                if ref.name in wanted & self.known.keys()
                and ref.name not in names[point]
                and issubclass(self.known[ref.name], ROLES[point])
                and not self.plugins.at(point).disables(ref.name)
                and not self.plugins.multi_point.disables(ref.name)
            ]
            names[point][:0] = added
            reruns.update(added)
        return frozenset(reruns)

    def _is_known(self, name: str, path: str, *, default: bool = False) -> bool:
        if name in self.known:
            return self._is_sound(name, path)
        if (self.place is Place.EXTENDER or self.is_whole) and name in IN_TREE:
            self.built.left_to_kube_scheduler.append(name)
        elif self.skip_missing:
            self.built.missing.setdefault(name, []).append(path)
        elif default:
            self.problems.append(
                FieldError(
                    path,
                    f'default plugin "{name}" is not installed; expected it in entry point group {GROUP} or '
                    "disabled in multiPoint",
                )
            )
        else:
            instead = "; or extender.skipMissingPlugins: true" if self.place is Place.EXTENDER else ""
            self.problems.append(FieldError(path, f"{self.known.missing(name)}{instead}"))
        return False

    def _is_sound(self, name: str, path: str) -> bool:
        """Import an installed plugin."""
        try:
            self.known.load(name, path)
        except PluginError as error:
            self.problems.extend(error.problems)
            return False
        return True

    def _arguments(self) -> dict[str, tuple[str, PluginArgs]]:
        """Read the arguments of all plugins, with their paths."""
        read: dict[str, tuple[str, PluginArgs]] = {}
        for place, config in enumerate(self.profile.plugin_config):
            name, path = config.name, f"{self.path}.pluginConfig[{place}]"
            try:
                if self._is_known(name, f"{path}.name"):
                    read[name] = f"{path}.args", self.known[name].read_args(config.args, f"{path}.args")
            except ConfigError as error:
                self.problems.extend(error.problems)
        return read

    def _default_gates(self, used: Iterable[str]) -> FeatureGates:
        declared = {gate: spec for name in used for gate, spec in self.known[name].feature_gates.items()}
        return FeatureGates({**SPECS, **declared})

    def _check_gates(self, used: Iterable[str], gates: FeatureGates) -> None:
        for name in used:
            gate = self.known[name].feature
            if gate is not None and not gates.enabled(gate):
                off = f"{name} is enabled, and its feature gate {gate} is off"
                self.problems.append(FieldError(f"{self.path}.plugins", off))

    def _check_counts(self, names: Mapping[str, Sequence[str]]) -> None:
        if self.place is Place.EXTENDER or self.is_whole:
            return
        if len(names["queue_sort"]) != 1:
            self.problems.append(
                FieldError(
                    f"{self.path}.plugins.queueSort",
                    f"got {len(names['queue_sort'])} plugins, expected exactly one queue sort plugin",
                )
            )
        if not names["bind"]:
            self.problems.append(
                FieldError(f"{self.path}.plugins.bind", "at least one bind plugin is needed")
            )


def _with_default_pre_bind(plugins: Plugins, known: Catalogue[Plugin]) -> Plugins:
    """Append DefaultPreBind, as Koordinator does to every profile that does not disable it."""
    pre_bind = plugins.pre_bind
    if (
        _DEFAULT_PRE_BIND not in known
        or pre_bind.disables(_DEFAULT_PRE_BIND)
        or any(ref.name == _DEFAULT_PRE_BIND for ref in pre_bind.enabled)
    ):
        return plugins
    enabled = (*pre_bind.enabled, PluginRef(name=_DEFAULT_PRE_BIND))
    return plugins.model_copy(update={"pre_bind": pre_bind.model_copy(update={"enabled": enabled})})


def _camel(point: str) -> str:
    head, *rest = point.split("_")
    return head + "".join(part.title() for part in rest)
