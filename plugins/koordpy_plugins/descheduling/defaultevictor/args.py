"""Arguments of DefaultEvictor, as in the Kubernetes descheduler.

Unknown fields are ignored, as Koordinator does for plugins that it takes from the descheduler.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from koordpy.api import label_selector
from koordpy.api.config_model import Duration
from koordpy.api.field_error import FieldError, invalid
from koordpy.descheduling.args import PluginArgs
from koordpy.descheduling.toolkit.evictability import SYSTEM_CRITICAL_PRIORITY
from koordpy.descheduling.toolkit.selector import Selector, selector_errors

Uint = Annotated[int, Field(ge=0, lt=1 << 64)]


class Protection(StrEnum):
    """A protection of pods from eviction."""

    LOCAL_STORAGE = "PodsWithLocalStorage"
    SYSTEM_CRITICAL = "SystemCriticalPods"
    FAILED_BARE = "FailedBarePods"
    DAEMON_SET = "DaemonSetPods"
    PVC = "PodsWithPVC"
    WITHOUT_PDB = "PodsWithoutPDB"
    RESOURCE_CLAIMS = "PodsWithResourceClaims"


DEFAULT_PROTECTIONS = frozenset(
    (
        Protection.LOCAL_STORAGE,
        Protection.SYSTEM_CRITICAL,
        Protection.FAILED_BARE,
        Protection.DAEMON_SET,
    )
)
EXTRA_PROTECTIONS = frozenset(Protection) - DEFAULT_PROTECTIONS


class NoEvictionPolicy(StrEnum):
    """The effect of the annotation `prefer-no-eviction`."""

    PREFERRED = "Preferred"
    MANDATORY = "Mandatory"


class _Lenient(PluginArgs):
    model_config = ConfigDict(extra="ignore")


class StorageClass(_Lenient):
    """A StorageClass by name."""

    name: str = ""


class PvcConfig(_Lenient):
    """The protected claims; all if none is listed."""

    protected_storage_classes: list[StorageClass] = []


class ProtectionConfig(_Lenient):
    """Parameters of single protections."""

    pods_with_pvc: PvcConfig | None = Field(default=None, alias="PodsWithPVC")


class PodProtections(_Lenient):
    """Protections to enable besides the four default ones, and default ones to disable."""

    extra_enabled: list[str] = []
    default_disabled: list[str] = []
    config: ProtectionConfig | None = None


class PriorityThreshold(_Lenient):
    """A priority by value or by the name of a PriorityClass."""

    value: int | None = None
    name: str = ""


class DefaultEvictorArgs(_Lenient):
    """Arguments of the plugin."""

    node_selector: str = ""
    label_selector: Selector | None = None
    namespace_label_selector: Selector | None = None
    priority_threshold: PriorityThreshold | None = None
    node_fit: bool = False
    min_replicas: Uint = 0
    min_pod_age: Duration | None = None
    no_eviction_policy: str = ""
    pod_protections: PodProtections = Field(default_factory=PodProtections)
    evict_local_storage_pods: bool = False
    evict_daemon_set_pods: bool = False
    evict_system_critical_pods: bool = False
    evict_failed_bare_pods: bool = False
    ignore_pvc_pods: bool = False
    ignore_pods_without_pdb: bool = Field(default=False, alias="ignorePodsWithoutPDB")

    @property
    def protections(self) -> frozenset[Protection]:
        """The enabled protections: of `podProtections` if it lists any, else of the deprecated fields."""
        listed = self.pod_protections
        if listed.extra_enabled or listed.default_disabled:
            off = {Protection(name) for name in listed.default_disabled}
            return (DEFAULT_PROTECTIONS - off) | {Protection(name) for name in listed.extra_enabled}
        switches = {
            Protection.LOCAL_STORAGE: not self.evict_local_storage_pods,
            Protection.SYSTEM_CRITICAL: not self.evict_system_critical_pods,
            Protection.FAILED_BARE: not self.evict_failed_bare_pods,
            Protection.DAEMON_SET: not self.evict_daemon_set_pods,
            Protection.PVC: self.ignore_pvc_pods,
            Protection.WITHOUT_PDB: self.ignore_pods_without_pdb,
        }
        return frozenset(protection for protection, on in switches.items() if on)

    @property
    def protected_storage_classes(self) -> frozenset[str]:
        """The StorageClasses whose claims are protected; empty: all."""
        config = self.pod_protections.config
        listed = config.pods_with_pvc if config else None
        return frozenset(item.name for item in listed.protected_storage_classes) if listed else frozenset()

    def problems(self) -> Iterable[FieldError]:
        """Validate as the Kubernetes descheduler does."""
        return _problems(self)


def _problems(args: DefaultEvictorArgs) -> list[FieldError]:
    errors = [
        *selector_errors("labelSelector", args.label_selector),
        *selector_errors("namespaceLabelSelector", args.namespace_label_selector),
    ]
    try:
        label_selector.parse(args.node_selector)
    except label_selector.SelectorError as error:
        errors.append(invalid("nodeSelector", args.node_selector, str(error)))
    threshold = args.priority_threshold
    if threshold is not None and threshold.value is not None:
        if threshold.name:
            errors.append(
                invalid("priorityThreshold", threshold.model_dump(), "only one of value and name can be set")
            )
        if threshold.value > SYSTEM_CRITICAL_PRIORITY:
            errors.append(
                invalid(
                    "priorityThreshold.value",
                    threshold.value,
                    f"must be less than or equal to {SYSTEM_CRITICAL_PRIORITY}",
                )
            )
    if args.no_eviction_policy not in ("", *NoEvictionPolicy):
        errors.append(
            invalid(
                "noEvictionPolicy", args.no_eviction_policy, f"expected one of {_listed(NoEvictionPolicy)}"
            )
        )
    for field, names, known in (
        ("extraEnabled", args.pod_protections.extra_enabled, EXTRA_PROTECTIONS),
        ("defaultDisabled", args.pod_protections.default_disabled, DEFAULT_PROTECTIONS),
    ):
        errors += [
            invalid(f"podProtections.{field}[{index}]", name, f"expected one of {_listed(known)}")
            for index, name in enumerate(names)
            if name not in known
        ]
    return errors


def _listed(names: "frozenset[Protection] | type[NoEvictionPolicy]") -> str:
    return ", ".join(sorted(map(str, names)))
