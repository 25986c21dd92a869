"""Arguments of MigrationController.

Source: Koordinator, `pkg/descheduler/apis/config/v1alpha2` (`types_pluginargs.go`, `defaults.go`) and
`.../validation/validation_pluginargs.go`.
"""

import math
import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from koordpy.api import int_or_string, selector_errors
from koordpy.api.config_model import ConfigModel, Duration, Int32, Int64
from koordpy.api.config_writing import Written
from koordpy.api.field_error import FieldError, invalid
from koordpy.api.int_or_string import IntOrString
from koordpy.descheduling.args import GivenDuration, PluginArgs
from koordpy.descheduling.toolkit.pods import Namespaces, namespaces_errors
from koordpy.descheduling.toolkit.selector import Selector
from koordpy.lib import duration

RESERVATION_FIRST = "ReservationFirst"
EVICT_DIRECTLY = "EvictDirectly"
"""The two modes of a PodMigrationJob."""

WORKLOAD: Literal["workload"] = "workload"
NAMESPACE: Literal["namespace"] = "namespace"
"""The two kinds of objects that may have a limiter."""

_POINTER = Written(empty=True)
"""Go writes what a pointer points at, even if it is empty."""

_FLOAT = re.compile(r"[+-]?[0-9A-Za-z_.+-]+", re.ASCII)


class EvictionGate(StrEnum):
    """The checks before an eviction that `skipEvictionGates` can switch off."""

    MAX_UNAVAILABLE_PER_WORKLOAD = "MaxUnavailablePerWorkload"
    MAX_MIGRATING_PER_WORKLOAD = "MaxMigratingPerWorkload"
    MAX_MIGRATING_PER_NODE = "MaxMigratingPerNode"
    MAX_MIGRATING_PER_NAMESPACE = "MaxMigratingPerNamespace"
    MAX_MIGRATING_GLOBALLY = "MaxMigratingGlobally"
    EXPECTED_REPLICAS = "ExpectedReplicas"
    PVC = "PVC"
    BARE_PODS = "BarePods"
    LOCAL_STORAGE = "LocalStorage"
    SYSTEM_CRITICAL = "SystemCritical"
    PRIORITY_THRESHOLD = "PriorityThreshold"
    LABEL_SELECTOR = "LabelSelector"
    NAMESPACES = "Namespaces"
    NODE_FIT = "NodeFit"


class PriorityThreshold(ConfigModel):
    """A priority by value or by the name of a PriorityClass."""

    value: Int32 | None = None
    name: str = ""


class ObjectLimiter(ConfigModel):
    """How many pods of one object may be evicted within a time."""

    duration: GivenDuration = 0
    """The window in nanoseconds; 0: no limit."""
    max_migrating: Annotated[IntOrString | None, _POINTER] = None
    """A number or a percentage of the replicas; 0 or None: `max_migrating_per_workload` of the arguments."""
    burst: Annotated[Int64, Written(empty=False)] = 0


class Preconditions(ConfigModel):
    """What must hold of the pod that is deleted."""

    uid: Annotated[str | None, _POINTER] = None
    resource_version: Annotated[str | None, _POINTER] = None


class DeleteOptions(ConfigModel):
    """Kubernetes' `metav1.DeleteOptions`."""

    api_version: str = ""
    kind: str = ""
    grace_period_seconds: Int64 | None = None
    preconditions: Preconditions | None = None
    orphan_dependents: bool | None = None
    propagation_policy: Annotated[str | None, _POINTER] = None
    dry_run: list[str] = []
    ignore_store_read_error_with_cluster_breaking_potential: bool | None = None


class ArbitrationArgs(ConfigModel):
    """How often waiting jobs are arbitrated. `enabled` has no effect, in Koordinator neither."""

    enabled: Annotated[bool, Written(empty=False)] = False
    interval: Duration = 500 * duration.MILLISECOND


class MigrationControllerArgs(PluginArgs):
    """Arguments of the plugin. Decoding sets the defaults."""

    checked_unless_enabled: ClassVar[bool] = True

    dry_run: Annotated[bool, Written(empty=False)] = False
    max_concurrent_reconciles: Int32 = 1
    evict_failed_bare_pods: bool = False
    evict_all_bare_pods: bool = False
    evict_local_storage_pods: bool = False
    evict_system_critical_pods: bool = False
    ignore_pvc_pods: bool = False
    priority_threshold: PriorityThreshold | None = None
    label_selector: Selector | None = None
    namespaces: Namespaces | None = None
    node_fit: Annotated[bool, Written(empty=False)] = False
    node_selector: str = ""
    """A label selector as text, of the nodes that `node_fit` considers."""
    skip_eviction_gates: list[str] = []
    max_migrating_globally: Int32 | None = None
    max_migrating_per_node: Int32 = 2
    max_migrating_per_namespace: Int32 | None = None
    max_migrating_per_workload: Annotated[IntOrString | None, _POINTER] = None
    max_unavailable_per_workload: Annotated[IntOrString | None, _POINTER] = None
    skip_check_expected_replicas: bool | None = None
    object_limiters: dict[str, ObjectLimiter] = Field(default={}, validate_default=True)
    """Limiters by kind of object, `workload` or `namespace`."""
    default_job_mode: str = RESERVATION_FIRST
    default_job_ttl: Annotated[Duration, Field(alias="defaultJobTTL")] = 5 * duration.MINUTE
    scheduler_names: list[str] = ["koord-scheduler"]
    evict_qps: Annotated[float | str, Field(alias="evictQPS"), _POINTER] = 10.0
    """As the file has it; `evictions_per_second` is the number."""
    evict_burst: Int32 = 1
    eviction_policy: str = "Eviction"
    default_delete_options: DeleteOptions | None = None
    arbitration_args: ArbitrationArgs = ArbitrationArgs(enabled=True)

    @field_validator("object_limiters")
    @classmethod
    def _default_limiters(cls, given: dict[str, ObjectLimiter]) -> dict[str, ObjectLimiter]:
        return given or {WORKLOAD: ObjectLimiter.model_construct(duration=5 * duration.MINUTE)}

    @field_validator("scheduler_names")
    @classmethod
    def _default_schedulers(cls, given: list[str]) -> list[str]:
        return given or ["koord-scheduler"]

    @field_validator("default_job_mode")
    @classmethod
    def _default_mode(cls, given: str) -> str:
        return given or RESERVATION_FIRST

    @field_validator("eviction_policy")
    @classmethod
    def _default_policy(cls, given: str) -> str:
        return given or "Eviction"

    @property
    def evictions_per_second(self) -> float:
        """The number in `evict_qps`; 0 for text that is not a number."""
        return _float(self.evict_qps)

    @property
    def default_deletion(self) -> dict[str, Any] | None:
        """`default_delete_options` as a document, without what the file does not set."""
        options = self.default_delete_options
        return (
            None
            if options is None
            else options.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)
        )

    @property
    def skipped_gates(self) -> frozenset[EvictionGate]:
        """The checks that are switched off."""
        return frozenset(map(EvictionGate, self.skip_eviction_gates))

    def problems(self) -> Iterable[FieldError]:
        """Validate as Koordinator does."""
        return dict.fromkeys(_problems(self))

    def problems_under(self, path: str) -> Iterable[FieldError]:
        """Return the problems with their paths in a file; as in Koordinator, not for `labelSelector`."""
        for problem in self.problems():
            yield problem if problem.path.startswith("labelSelector") else problem.under(path)


def _problems(args: MigrationControllerArgs) -> Iterable[FieldError]:
    for index, gate in enumerate(args.skip_eviction_gates):
        if gate not in tuple(EvictionGate):
            yield invalid(f"skipEvictionGates[{index}]", gate, "unknown eviction gate")
    for field, number in (
        ("maxMigratingGlobally", args.max_migrating_globally),
        ("maxMigratingPerNamespace", args.max_migrating_per_namespace),
        ("maxMigratingPerNode", args.max_migrating_per_node),
    ):
        if number is not None and number < 0:
            yield invalid(field, number, f"{field} should be greater or equal 0")
    for field, share in (
        ("maxMigratingPerWorkload", args.max_migrating_per_workload),
        ("maxUnavailablePerWorkload", args.max_unavailable_per_workload),
    ):
        if share is not None:
            try:
                int_or_string.scaled(share, 100, round_up=True)
            except ValueError as error:
                yield invalid(field, share, f"{field} is invalid, err: {error} ")
    if args.evictions_per_second <= 0:
        yield invalid("evictQPS", args.evict_qps, "evictQPS must be greater than 0")
    if args.evict_burst <= 0:
        yield invalid("evictBurst", args.evict_burst, "evictBurst must be greater than 0")
    if args.label_selector is not None:
        yield from selector_errors.field_errors("labelSelector", args.label_selector)
    yield from namespaces_errors("namespaces", args.namespaces)
    if args.max_concurrent_reconciles < 1:
        yield invalid(
            "maxConcurrentReconciles",
            args.max_concurrent_reconciles,
            "maxConcurrentReconciles should be greater than or equal to 1",
        )
    if args.default_job_mode not in (RESERVATION_FIRST, EVICT_DIRECTLY):
        yield invalid(
            "defaultJobMode",
            args.default_job_mode,
            f"defaultJobMode must be {RESERVATION_FIRST} or {EVICT_DIRECTLY}",
        )
    if args.default_job_ttl < 0:
        yield invalid(
            "defaultJobTTL",
            duration.format(args.default_job_ttl),
            "defaultJobTTL should be positive or zero",
        )


def _float(value: float | str) -> float:
    """Read a number as Go's `strconv.ParseFloat` does; 0 if it is none."""
    if not isinstance(value, str):
        return value
    if not _FLOAT.fullmatch(value):
        return 0.0
    try:
        return float.fromhex(value) if "x" in value.lower() else float(value)
    except OverflowError:
        return math.inf
    except ValueError:
        return 0.0
