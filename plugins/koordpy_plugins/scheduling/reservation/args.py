"""The arguments of the Reservation plugin, with Koordinator's names, defaults and validation."""

from collections.abc import Iterable
from typing import Any

from pydantic import Field, model_validator

from koordpy.api import extension, resource_names
from koordpy.api.config_model import ConfigModel
from koordpy.api.field_error import FieldError, invalid
from koordpy.api.plugin import PluginArgs

_SECONDS = {"gcDurationSeconds": 86_400, "gcIntervalSeconds": 60, "resyncIntervalSeconds": 60}

_NOT_EXTENDED = "must be an extended resource name (e.g. example.com/gpu); native resources cannot be ignored"
_NOT_A_PREFIX = (
    "must be usable as an extended resource prefix (a valid DNS subdomain and not the reserved "
    '"kubernetes.io" namespace)'
)


class PreAllocationConfig(ConfigModel):
    """How Reservations take over what running pods hold.

    In Cluster mode pods are marked by a label with the value `true`, and ranked by an annotation.
    """

    enable_cluster_mode: bool = False
    cluster_label_key: str = extension.LABEL_POD_PRE_ALLOCATABLE
    cluster_priority_annotation_key: str = extension.ANNOTATION_PRE_ALLOCATABLE_PRIORITY
    prefer_no_pre_allocated_pods: bool = False

    @model_validator(mode="before")
    @classmethod
    def _default(cls, given: Any) -> Any:
        """An empty key means the default, as it does for Koordinator's defaulter."""
        if not isinstance(given, dict):
            return given
        return {
            key: value
            for key, value in given.items()
            if value != "" or key not in ("clusterLabelKey", "clusterPriorityAnnotationKey")
        }


class ReservationSelectorIndexConfig(ConfigModel):
    """Labels of Reservations by which a pod's reservationSelector finds them fast."""

    enabled: bool = False
    key_prefixes: tuple[str, ...] = Field(default=(), strict=False)
    keys: tuple[str, ...] = Field(default=(), strict=False)


class ReservationArgs(PluginArgs):
    """Resources in `ignored_resources`, and those of a domain in `ignored_resource_groups`, need not fit."""

    enable_preemption: bool = False
    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100
    controller_workers: int = 1
    gc_duration_seconds: int = _SECONDS["gcDurationSeconds"]
    gc_interval_seconds: int = _SECONDS["gcIntervalSeconds"]
    disable_garbage_collection: bool = False
    resync_interval_seconds: int = _SECONDS["resyncIntervalSeconds"]
    pre_allocation_config: PreAllocationConfig = PreAllocationConfig()
    ignored_resources: tuple[str, ...] = Field(default=(), strict=False)
    ignored_resource_groups: tuple[str, ...] = Field(default=(), strict=False)
    reservation_selector_index: ReservationSelectorIndexConfig = ReservationSelectorIndexConfig()

    @model_validator(mode="before")
    @classmethod
    def _default(cls, given: Any) -> Any:
        """A number of seconds that is 0 means the default; there is at least one worker."""
        if not isinstance(given, dict):
            return given
        fields = dict(given)
        for name, seconds in _SECONDS.items():
            if fields.get(name) == 0:
                fields[name] = seconds
        workers = fields.get("controllerWorkers")
        if isinstance(workers, int) and workers <= 0:
            fields["controllerWorkers"] = 1
        return fields

    def problems(self) -> Iterable[FieldError]:
        """Check ranges and names as Koordinator does."""
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        if not 0 <= percentage <= 100:
            yield invalid("minCandidateNodesPercentage", percentage, "must be in the range [0, 100]")
        for name, number in (
            ("minCandidateNodesAbsolute", absolute),
            ("gcDurationSeconds", self.gc_duration_seconds),
            ("gcIntervalSeconds", self.gc_interval_seconds),
            ("resyncIntervalSeconds", self.resync_interval_seconds),
        ):
            if number < 0:
                yield invalid(name, number, "must be non-negative")
        for index, resource in enumerate(self.ignored_resources):
            if not resource_names.is_extended(resource):
                yield invalid(f"ignoredResources[{index}]", resource, _NOT_EXTENDED)
        for index, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                yield invalid(
                    f"ignoredResourceGroups[{index}]", group, "resource group name can't contain '/'"
                )
            elif not resource_names.is_extended(f"{group}/x"):
                yield invalid(f"ignoredResourceGroups[{index}]", group, _NOT_A_PREFIX)

    def ignores(self, resource: str) -> bool:
        """Return whether a resource need not fit."""
        group, slash, _ = resource.partition("/")
        return resource in self.ignored_resources or (
            bool(slash and group) and group in self.ignored_resource_groups
        )
