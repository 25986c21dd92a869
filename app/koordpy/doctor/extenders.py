"""Whether kube-scheduler's configuration calls koordpy as koordpy's profiles need it."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from urllib.parse import urlsplit

from koordpy.compose.extender_certificate import certificate_of
from koordpy.compose.part import PartError
from koordpy.lib.certificates import CA_CERT, CLIENT_CERT, CLIENT_KEY
from koordpy.lib.counting import counted
from koordpy.scheduling.extender import light
from koordpy.scheduling.framework.bind_phase import MAX_PERMIT_WAIT
from koordpy.scheduling.interface import Plugin, Preempt
from koordpy.scheduling.profiles.config import (
    ExtenderConfig,
    ExtenderTLSConfig,
    Profile,
    SchedulerConfiguration,
)
from koordpy.scheduling.profiles.in_tree import DEFAULT_PLUGINS, IN_TREE
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.settings import ExtenderSettings

from .finding import Area, Finding
from .gangs import COSCHEDULING, defaults_of
from .installation import Installation

AREA = Area("extender")

PATH = "/extender"
VERBS = ("filter", "prioritize", "preempt", "bind")
SCALE = 10
"""The factor that kube-scheduler applies to an extender's scores, besides the entry's weight."""

LONGEST_CYCLE = 30.0
"""Seconds; with a longer filter timeout, one call that hangs blocks all scheduling for that long."""

_POINTS: Mapping[str, Sequence[str]] = {
    "filter": ("pre_filter", "filter"),
    "prioritize": ("pre_score", "score"),
    "preempt": ("post_filter",),
    "bind": tuple(dict.fromkeys(point for point, _ in light.NOT_CALLED)),
}

_SHIPPED = {
    "full": "deploy/scheduler/kube-scheduler-config.yaml",
    "light": "deploy/scheduler/kube-scheduler-config-light.yaml",
}


def check(installation: Installation, scheduler: SchedulerConfiguration) -> Iterator[Finding]:
    """Check the entries of a configuration that call koordpy, and compare its profiles with koordpy's."""
    settings = installation.settings.extender
    ours = [entry for entry in scheduler.extenders if _is_ours(entry, settings)]
    shipped = _SHIPPED[settings.mode]
    if not ours:
        others = ", ".join(entry.url_prefix for entry in scheduler.extenders) or "none"
        yield AREA.problem(
            "extenders",
            f"no entry calls koordpy on port {settings.port} under {PATH} (entries: {others}): koordpy "
            "takes no part in scheduling",
            f"copy the entries of {shipped} and set your address",
        )
        return
    found = [
        *_addresses(ours, settings),
        *_certificates(ours, settings),
        *_verbs(ours, scheduler, installation),
        *_timeouts(ours, installation.profiles),
        *_reach(ours),
        *_profiles(scheduler, installation),
        *_weights(ours, scheduler, installation),
        *_choice(ours, scheduler, installation),
    ]
    yield from found
    if not found:
        yield AREA.ok(
            "extenders",
            f"koordpy is called as its profiles need it, by {counted(len(ours), 'entry', 'entries')}",
        )


def _is_ours(entry: ExtenderConfig, settings: ExtenderSettings) -> bool:
    parts = urlsplit(entry.url_prefix)
    return parts.path.rstrip("/") == PATH or parts.port == settings.port


def _addresses(ours: Sequence[ExtenderConfig], settings: ExtenderSettings) -> Iterator[Finding]:
    for entry in ours:
        parts = urlsplit(entry.url_prefix)
        if parts.path.rstrip("/") != PATH:
            yield AREA.problem(
                entry.url_prefix,
                f"koordpy answers under {PATH}, not {parts.path or '/'}",
                f"urlPrefix: {parts.scheme}://{parts.netloc}{PATH}",
            )
        if parts.port != settings.port:
            yield AREA.problem(
                entry.url_prefix,
                f"koordpy listens on port {settings.port}, not {parts.port or 'the default of the scheme'}",
                "set the port in urlPrefix or extender.port (the doctor's --config is koordpy's settings)",
            )
        secure = entry.enable_https or parts.scheme == "https"
        if secure != (settings.cert_dir is not None):
            speaks = "TLS (extender.certDir)" if settings.cert_dir else "plain HTTP"
            yield AREA.problem(
                entry.url_prefix,
                f"kube-scheduler calls {'with' if secure else 'without'} TLS, koordpy speaks {speaks}",
                "set enableHTTPS and tlsConfig, or extender.certDir, so that both sides agree",
            )


def _certificates(ours: Sequence[ExtenderConfig], settings: ExtenderSettings) -> Iterator[Finding]:
    """Check that kube-scheduler presents a client certificate where koordpy requires one."""
    try:
        certificate = certificate_of(settings)
    except PartError as error:
        _, _, reason = str(error).partition(": ")
        yield AREA.problem("extender.bindAddress", *map(str.strip, reason.split(";", 1)))
        return
    if certificate is None:
        return
    folder = certificate.folder
    fix = (
        f"tlsConfig: {{caFile: {folder / CA_CERT}, certFile: {folder / CLIENT_CERT}, "
        f"keyFile: {folder / CLIENT_KEY}}} (copies, where kube-scheduler runs on another machine)"
    )
    for entry in ours:
        tls = entry.tls_config or ExtenderTLSConfig()
        has_pair = (tls.cert_file or tls.cert_data) and (tls.key_file or tls.key_data)
        if certificate.clients is not None and not has_pair:
            yield AREA.problem(
                entry.url_prefix,
                "kube-scheduler presents no client certificate: every call fails in the TLS handshake",
                fix,
            )
        if not (tls.ca_file or tls.ca_data):
            yield AREA.warning(
                entry.url_prefix,
                "kube-scheduler does not verify whom it calls: tlsConfig has no caFile",
                fix,
            )


# --- verbs -----------------------------------------------------------------------------------------


def _verbs(
    ours: Sequence[ExtenderConfig], scheduler: SchedulerConfiguration, installation: Installation
) -> Iterator[Finding]:
    settings = installation.settings.extender
    for entry in ours:
        for verb, given in _given(entry).items():
            if given and given != verb:
                yield AREA.problem(
                    entry.url_prefix,
                    f"{verb}Verb is {given!r}: koordpy answers {PATH}/{verb}",
                    f"{verb}Verb: {verb}",
                )
    called = {verb for entry in ours for verb, given in _given(entry).items() if given == verb}
    needed = {verb: _plugins_with(installation.profiles, verb) for verb in VERBS}
    needed["filter"] = needed["filter"] or ["koordpy"]
    if settings.node_choice == "koordpy":
        needed["prioritize"] = []  # filter has chosen already
    if settings.mode == "light":
        needed["bind"] = []
        yield from _light(ours, scheduler)
    for verb in VERBS:
        if needed[verb] and verb not in called:
            yield AREA.problem(
                f"{verb}Verb",
                f"is in no entry of koordpy's: {', '.join(needed[verb])} {_lost(verb)}",
                f"add {verb}Verb: {verb}"
                + (" in an entry of its own with httpTimeout: 900s" if verb == "bind" else "")
                + ("; or run koordpy with extender.mode: light" if verb == "bind" else ""),
            )
    for verb in ("filter", "prioritize", "preempt"):
        entries = [entry for entry in ours if _given(entry)[verb] == verb]
        if len(entries) > 1:
            yield AREA.problem(
                f"{verb}Verb",
                f"is in {len(entries)} entries of koordpy's: it is called {len(entries)} times for every pod",
                f"keep {verb}Verb in one of them",
            )


def _plugins_with(profiles: Profiles, verb: str) -> list[str]:
    """Return the names of the plugins with an extension point that a verb runs."""
    return sorted(
        {
            plugin.name
            for framework in profiles.frameworks.values()
            for point in _POINTS[verb]
            for plugin in framework.enabled.enabled.get(point, ())
            if verb != "preempt" or isinstance(plugin, Preempt)
        }
    )


def _given(entry: ExtenderConfig) -> Mapping[str, str]:
    return {
        "filter": entry.filter_verb,
        "prioritize": entry.prioritize_verb,
        "preempt": entry.preempt_verb,
        "bind": entry.bind_verb,
    }


def _lost(verb: str) -> str:
    return {
        "filter": "do not filter nodes",
        "prioritize": "do not score nodes",
        "preempt": "do not take part in preemption",
        "bind": "allocate nothing: kube-scheduler binds by itself, without Reserve, Permit and PreBind",
    }[verb]


def _light(ours: Sequence[ExtenderConfig], scheduler: SchedulerConfiguration) -> Iterator[Finding]:
    for entry in ours:
        if entry.bind_verb:
            yield AREA.problem(
                entry.url_prefix,
                "has a bindVerb, and koordpy runs in light mode: every bind is refused, no pod is bound",
                "remove bindVerb, or set extender.mode: full",
            )
    for entry in scheduler.extenders:
        if entry.bind_verb and entry not in ours:
            yield AREA.note(
                entry.url_prefix, "binds pods; in light mode koordpy does not depend on what binds them", ""
            )


# --- how it is called ------------------------------------------------------------------------------


def _timeouts(ours: Sequence[ExtenderConfig], profiles: Profiles) -> Iterator[Finding]:
    waits = {
        plugin.name: _longest_wait(plugin)
        for framework in profiles.frameworks.values()
        for plugin in framework.enabled.enabled.get("permit", ())
    }
    for entry in ours:
        if entry.bind_verb and waits and entry.http_timeout < max(waits.values()):
            slow = ", ".join(f"{name} ({seconds:g} s)" for name, seconds in waits.items())
            yield AREA.problem(
                entry.url_prefix,
                f"httpTimeout of the entry with bindVerb is {entry.http_timeout:g} s, and Permit may hold "
                "a bind "
                f"longer: {slow}; kube-scheduler gives up before",
                f"httpTimeout: {max(waits.values()):g}s in an entry with bindVerb alone",
            )
        in_cycle = entry.filter_verb or entry.prioritize_verb or entry.preempt_verb
        if in_cycle and entry.http_timeout > LONGEST_CYCLE:
            yield AREA.warning(
                entry.url_prefix,
                f"httpTimeout is {entry.http_timeout:g} s in an entry that filters: one call that hangs "
                "blocks all "
                "scheduling for that long",
                "httpTimeout: 5s; give bindVerb an entry of its own with a long one",
            )
        elif in_cycle and entry.http_timeout < 1:
            yield AREA.warning(
                entry.url_prefix,
                f"httpTimeout is {entry.http_timeout:g} s: with many nodes, or while koordpy starts, calls "
                "fail",
                "httpTimeout: 5s",
            )


def _longest_wait(plugin: Plugin) -> float:
    """Return for how many seconds a plugin lets pods wait; the area `gangs` examines longer ones."""
    if plugin.name == COSCHEDULING:
        return min(defaults_of(plugin).wait_seconds, MAX_PERMIT_WAIT)
    declared = plugin.needs.longest_wait
    return MAX_PERMIT_WAIT if declared is None else declared


def _reach(ours: Sequence[ExtenderConfig]) -> Iterator[Finding]:
    for entry in ours:
        in_cycle = entry.filter_verb or entry.prioritize_verb
        if in_cycle and not entry.node_cache_capable:
            yield AREA.warning(
                entry.url_prefix,
                "nodeCacheCapable is not set: kube-scheduler sends whole Node objects with every call, which "
                "is many times slower on both sides",
                "nodeCacheCapable: true (koordpy follows nodes itself)",
            )
        if entry.managed_resources:
            names = ", ".join(resource.name for resource in entry.managed_resources)
            yield AREA.warning(
                entry.url_prefix,
                f"managedResources: koordpy is called only for pods that request {names}",
                "remove managedResources",
            )
        if entry.ignorable:
            yield AREA.warning(
                entry.url_prefix,
                "ignorable: while koordpy does not answer, pods are placed without it",
                "ignorable: false, unless that is intended",
            )


# --- profiles --------------------------------------------------------------------------------------


def _profiles(scheduler: SchedulerConfiguration, installation: Installation) -> Iterator[Finding]:
    theirs = [profile.scheduler_name for profile in scheduler.profiles]
    for name in theirs:
        if name not in installation.profiles.frameworks:
            yield AREA.problem(
                f"profile {name}",
                "kube-scheduler has it and koordpy does not: extenders are for all profiles, so every "
                "filter call "
                "for its pods fails",
                f"add a profile with schedulerName: {name} to koordpy's profiles (it may have no plugins), "
                "or run "
                "that profile in a kube-scheduler without extenders",
            )
    for name in installation.profiles.frameworks:
        if name not in theirs:
            yield AREA.note(
                f"profile {name}",
                "koordpy has it and this kube-scheduler does not: pods with that schedulerName do not come "
                "from it",
                f"add a profile with schedulerName: {name} to kube-scheduler, if no other has it",
            )


def _weights(
    ours: Sequence[ExtenderConfig], scheduler: SchedulerConfiguration, installation: Installation
) -> Iterator[Finding]:
    """A point of koordpy's counts `weight * 10`; in-tree weights not adjusted for that hardly count."""
    weight = max((entry.weight for entry in ours if entry.prioritize_verb), default=0)
    if not weight or installation.settings.extender.node_choice == "koordpy":
        return
    for profile in scheduler.profiles:
        framework = installation.profiles.of(profile.scheduler_name)
        if framework is None or not framework.weights:
            continue
        in_tree = _in_tree_weights(profile)
        if in_tree and all(given < weight * SCALE for given in in_tree.values()):
            plugin, own = next(iter(framework.weights.items()))
            name, given = max(in_tree.items(), key=lambda item: item[1])
            yield AREA.warning(
                f"profile {profile.scheduler_name}",
                f"in-tree score weights are at most {given} ({name}), and a point of {plugin} counts "
                f"{own * weight * SCALE} (its weight {own} x the entry's {weight} x {SCALE}): "
                "kube-scheduler's own scores hardly count",
                f"multiply the weights of kube-scheduler's score plugins by {weight * SCALE}, as "
                f"{_SHIPPED['full']} does",
            )


def _choice(
    ours: Sequence[ExtenderConfig], scheduler: SchedulerConfiguration, installation: Installation
) -> Iterator[Finding]:
    """Where koordpy chooses the node, it needs kube-scheduler's own filters, scores and weights."""
    if installation.settings.extender.node_choice != "koordpy":
        return
    fix = "set the same in koordpy's profiles, or set extender.nodeChoice: kube-scheduler"
    for entry in scheduler.extenders:
        if entry not in ours and entry.filter_verb:
            yield AREA.warning(
                entry.url_prefix,
                "filters too, and koordpy names one node alone (extender.nodeChoice): where this one "
                "refuses that "
                "node, the pod is unschedulable though others may fit",
                "set extender.nodeChoice: kube-scheduler",
            )
    for profile in scheduler.profiles:
        whole = installation.profiles.whole_of(profile.scheduler_name)
        if whole is None:
            continue
        subject = f"profile {profile.scheduler_name}"
        theirs = {name: weight for name, weight in _in_tree_weights(profile).items() if name in IN_TREE}
        known = {name: weight for name, weight in whole.weights.items() if name in IN_TREE}
        if _ratios(theirs) != _ratios(known):
            yield AREA.warning(
                subject,
                "koordpy chooses the node with other weights of kube-scheduler's score plugins "
                f"({_listed(known)}) "
                f"than kube-scheduler has ({_listed(theirs)})",
                fix,
            )
        plugins = {plugin.name: plugin for plugin in whole.plugins}
        for given in profile.plugin_config:
            plugin = plugins.get(given.name)
            if given.name not in theirs or plugin is None:
                continue
            if plugin.read_args(given.args, subject) != plugin.args:
                yield AREA.warning(
                    f"{subject}: {given.name}",
                    "koordpy chooses the node with other arguments of this plugin than kube-scheduler has",
                    fix,
                )


def _ratios(weights: Mapping[str, int]) -> dict[str, Fraction]:
    """Return weights as fractions of their sum: only their ratios matter."""
    return {name: Fraction(weight, sum(weights.values())) for name, weight in weights.items()}


def _listed(weights: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {weight}" for name, weight in sorted(weights.items())) or "none"


def _in_tree_weights(profile: Profile) -> dict[str, int]:
    """Return the weights with which kube-scheduler's own score plugins run in a profile."""
    found = {ref.name: ref.weight for ref in DEFAULT_PLUGINS if ref.weight}
    if profile.plugins is None:
        return found
    for plugins in (profile.plugins.multi_point, profile.plugins.score):
        found = {name: weight for name, weight in found.items() if not plugins.disables(name)}
        found |= {ref.name: ref.weight or 1 for ref in plugins.enabled if ref.weight or ref.name in found}
    return found
