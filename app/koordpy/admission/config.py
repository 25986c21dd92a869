"""The handlers that run, their order and arguments, and the resulting chains.

In-tree handlers are enabled by name here, in Koordinator's order. A third-party handler must be installed
(entry point group `koordpy.admission`) and listed under `enabled`; it then runs after the in-tree handlers of
its path, or directly before the handler that its entry names.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from koordpy.api import plugin_set
from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError, ConfigModel
from koordpy.api.field_error import FieldError
from koordpy.lib.feature_gates import FeatureSpec
from koordpy.lib.nearest import suggestion

from . import gates
from .chain import Chain
from .handler import Handle, Handler
from .handler_entry import HandlerEntry
from .history import History
from .paths import webhook_path

GROUP: Final = "koordpy.admission"
_ENABLED: Final = "admission.enabled"
_DISABLED: Final = "admission.disabled"

DEFAULT_HANDLERS: Final = (
    "mutate-pod.ClusterColocationProfile",
    "mutate-pod.ExtendedResourceSpec",
    "mutate-pod.MultiQuotaTree",
    "mutate-pod.DeviceResourceSpec",
    "mutate-pod.DeviceEnvironment",
    "mutate-pod.PreEnqueueGates",
    "mutate-reservation.ClusterColocationProfile",
    "mutate-reservation.DeviceResourceSpec",
    "validate-pod.ClusterReservation",
    "validate-pod.ClusterColocationProfile",
    "validate-pod.QuotaMetaCheck",
    "validate-pod.EvaluateQuota",
    "validate-pod.DeviceResource",
    "validate-pod.EnhancedValidation",
    "validate-pod.PodAllocation",
    "validate-pod-binding.BindingAdmission",
    "mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota.ElasticQuota",
    "validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota.ElasticQuota",
    "mutate-node-status.ResourceAmplification",
    "validate-node.SLOConfig",
    "validate-configmap.SLOControllerConfig",
)
"""The in-tree handlers, in Koordinator's order; DeviceEnvironment, PodAllocation and
`mutate-reservation.DeviceResourceSpec` are koordpy's own.
"""


class AdmissionConfig(ConfigModel):
    """The admission part of a configuration file.

    `enabled` adds handlers to the in-tree ones, or gives an in-tree one arguments or another position.
    `disabled` removes handlers by name; `*` removes all that `enabled` does not name. `history` is the
    number of admissions to record.
    """

    enabled: list[HandlerEntry] = []
    disabled: list[str] = []
    history: int = 256


def installed() -> Catalogue[Handler]:
    """Return the installed handlers. Raises DuplicateName."""
    return Catalogue(GROUP, Handler)


def gate_specs(catalogue: Catalogue[Handler] | None = None) -> dict[str, FeatureSpec]:
    """Return the gates of admission, with those that installed handlers declare. Raises GateConflict."""
    catalogue = installed() if catalogue is None else catalogue
    return catalogue.feature_gates(gates.SPECS, skip_broken=True)


def order(config: AdmissionConfig) -> list[HandlerEntry]:
    """Return the handlers to run, of all paths, in order. Raises ConfigError."""
    names = [entry.name for entry in config.enabled]
    for index, name in enumerate(names):
        if name in names[:index]:
            raise ConfigError(FieldError(f"{_ENABLED}[{index}].name", f"handler {name!r} is named twice"))
    for index, name in enumerate(config.disabled):
        path = f"{_DISABLED}[{index}]"
        if name in names:
            raise ConfigError(FieldError(path, f"{name!r} is enabled too"))
        if name != plugin_set.ALL and name not in DEFAULT_HANDLERS:
            hint = suggestion(name, DEFAULT_HANDLERS, "`koordpy version` lists the handlers")
            raise ConfigError(FieldError(path, f"got {name!r}, expected an in-tree handler or *; {hint}"))
    defaults = [HandlerEntry(name=name) for name in DEFAULT_HANDLERS]
    entries = plugin_set.merge(defaults, config.enabled, config.disabled)
    for entry in list(entries):
        if entry.before is None:
            continue
        others = [other.name for other in entries if other is not entry]
        if entry.before not in others:
            path = f"{_ENABLED}[{names.index(entry.name)}].before"
            hint = suggestion(entry.before, others, "`koordpy version` lists the handlers")
            raise ConfigError(FieldError(path, f"handler {entry.before!r} does not run; {hint}"))
        entries.remove(entry)
        entries.insert(others.index(entry.before), entry)
    return entries


def build_chains(
    config: AdmissionConfig, handle: Handle, catalogue: Catalogue[Handler] | None = None
) -> dict[str, Chain]:
    """Return the chains by path.

    A path whose gate is off is not served; with WebhookFramework off no path is served. A handler whose gate
    is off is left out. Raises ConfigError.
    """
    if not handle.gates.enabled("WebhookFramework"):
        return {}
    catalogue = installed() if catalogue is None else catalogue
    handlers: dict[str, list[Handler]] = {}
    for entry in order(config):
        path = _path(entry, config)
        type_ = catalogue.load(entry.name, f"{path}.name")
        args = type_.read_args(entry.args, f"{path}.args")
        gate = webhook_path(type_.path).gate
        if gate is not None and not handle.gates.enabled(gate):
            continue
        served = handlers.setdefault(type_.path, [])
        if type_.is_enabled(handle.gates):
            served.append(catalogue.make(entry.name, args, handle, f"{path}.args"))
    return make_chains(handlers, handle, History(config.history))


def make_chains(
    handlers: Mapping[str, Sequence[Handler]], handle: Handle, history: History
) -> dict[str, Chain]:
    """Return the chains of existing handlers."""
    return {
        path: Chain(path, own, history=history, clock=handle.clock) for path, own in sorted(handlers.items())
    }


def _path(entry: HandlerEntry, config: AdmissionConfig) -> str:
    """Return the position of an entry in the configuration file, or the name of a default handler."""
    for index, enabled in enumerate(config.enabled):
        if enabled is entry:
            return f"{_ENABLED}[{index}]"
    return f"{_ENABLED}[{entry.name}]"
