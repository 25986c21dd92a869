"""Which handlers run, in which order, with which arguments; and the chains that follow from it.

In-tree handlers are enabled by their names here, in Koordinator's order. A third-party handler needs to be
installed (entry point group `koordpy.admission`) and one line under `enabled`; it then runs after the
in-tree handlers of its path, or directly before the one that its line names.
"""

from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any, Final

from koordpy.api import config_model
from koordpy.api.config_model import ConfigError, ConfigModel
from koordpy.lib import entry_points

from .chain import Chain
from .handler import Handle, Handler
from .history import History
from .paths import webhook_path

GROUP: Final = "koordpy.admission"

DEFAULT_HANDLERS: Final = (
    "mutate-pod.ClusterColocationProfile",
    "mutate-pod.ExtendedResourceSpec",
    "mutate-pod.MultiQuotaTree",
    "mutate-pod.DeviceResourceSpec",
    "mutate-reservation.ClusterColocationProfile",
    "validate-pod.ClusterReservation",
    "validate-pod.ClusterColocationProfile",
    "validate-pod.QuotaMetaCheck",
    "validate-pod.EvaluateQuota",
    "validate-pod.DeviceResource",
    "validate-pod.EnhancedValidation",
    "validate-pod-binding.BindingAdmission",
    "mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota.ElasticQuota",
    "validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota.ElasticQuota",
    "mutate-node-status.ResourceAmplification",
    "validate-node.SLOConfig",
    "validate-configmap.SLOControllerConfig",
)
"""The in-tree handlers, in the order in which Koordinator calls them."""


class HandlerEntry(ConfigModel):
    """A handler to run: its arguments, and the handler that it shall precede (default: run last)."""

    name: str
    args: dict[str, Any] = {}
    before: str | None = None


class AdmissionConfig(ConfigModel):
    """The admission part of a configuration file.

    `enabled` adds handlers to the in-tree ones, or gives an in-tree one arguments or another place.
    `disabled` takes handlers out by name; `*` takes out all that `enabled` does not name. `history` is the
    number of admissions to remember.
    """

    enabled: list[HandlerEntry] = []
    disabled: list[str] = []
    history: int = 256


def order(config: AdmissionConfig) -> list[HandlerEntry]:
    """Return the handlers to run, of all paths, in order. Raises ConfigError."""
    named = {entry.name: entry for entry in config.enabled}
    if len(named) < len(config.enabled):
        raise ConfigError(f"enabled: a handler is named twice: {[entry.name for entry in config.enabled]}")
    for name in config.disabled:
        if name in named:
            raise ConfigError(f"disabled: {name!r} is enabled too")
        if name != "*" and name not in DEFAULT_HANDLERS:
            raise ConfigError(f"disabled: {name!r} is not one of {', '.join(DEFAULT_HANDLERS)}, *")
    kept = () if "*" in config.disabled else DEFAULT_HANDLERS
    entries = [named.get(name) or HandlerEntry(name=name) for name in kept if name not in config.disabled]
    entries += [entry for entry in config.enabled if entry.name not in kept]
    for entry in [entry for entry in entries if entry.before is not None]:
        names = [other.name for other in entries if other is not entry]
        if entry.before not in names:
            raise ConfigError(
                f"handler {entry.name!r}: before: {entry.before!r} does not run; running: {', '.join(names)}"
            )
        entries.remove(entry)
        entries.insert(names.index(entry.before), entry)
    return entries


def build_chains(
    config: AdmissionConfig, handle: Handle, points: Mapping[str, EntryPoint] | None = None
) -> dict[str, Chain]:
    """Return the chains by path.

    A path whose gate is off is not served; with WebhookFramework off none is. A handler whose gate is off is
    left out. Raises ConfigError, or koordpy.lib.entry_points.PluginLoadError.
    """
    if not handle.gates.enabled("WebhookFramework"):
        return {}
    points = entry_points.find(GROUP) if points is None else points
    types = [(entry, load_handler(entry.name, points)) for entry in order(config)]
    handlers: dict[str, list[Handler]] = {}
    for entry, type_ in types:
        gate = webhook_path(type_.path).gate
        if gate is not None and not handle.gates.enabled(gate):
            continue
        served = handlers.setdefault(type_.path, [])
        if type_.is_enabled(handle.gates):
            served.append(_construct(type_, entry, handle))
    return make_chains(handlers, handle, History(config.history))


def make_chains(
    handlers: Mapping[str, Sequence[Handler]], handle: Handle, history: History
) -> dict[str, Chain]:
    """Return the chains of handlers that are made already."""
    return {
        path: Chain(path, own, history=history, clock=handle.clock) for path, own in sorted(handlers.items())
    }


def load_handler(name: str, points: Mapping[str, EntryPoint]) -> type[Handler]:
    """Return an installed handler's class. Raises ConfigError or PluginLoadError."""
    loaded = entry_points.load(GROUP, name, points)
    if not isinstance(loaded, type) or not issubclass(loaded, Handler):
        raise ConfigError(f"handler {name!r}: its entry point is {loaded!r}, expected a class of handlers")
    if loaded.identity() != name:
        raise ConfigError(f"handler {name!r}: its class calls itself {loaded.identity()!r}")
    return loaded


def _construct(type_: type[Handler], entry: HandlerEntry, handle: Handle) -> Handler:
    try:
        args = config_model.read(type_.args_type, entry.args, "args")
    except ConfigError as error:
        raise error.under(f"handler {entry.name!r}") from None
    return type_(args, handle)
