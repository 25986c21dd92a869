"""The arguments of PodTopologySpread."""

from collections.abc import Iterable
from typing import Any, Literal

import msgspec
from pydantic import Field

from koordpy.api import labels
from koordpy.api.config_model import ConfigModel
from koordpy.api.core import TopologySpreadConstraint
from koordpy.api.field_error import FieldError, duplicate, forbidden, invalid, not_supported, required
from koordpy.api.plugin import PluginArgs

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"

SYSTEM_CONSTRAINTS = (
    TopologySpreadConstraint(
        max_skew=3, topology_key="kubernetes.io/hostname", when_unsatisfiable=SCHEDULE_ANYWAY
    ),
    TopologySpreadConstraint(
        max_skew=5, topology_key="topology.kubernetes.io/zone", when_unsatisfiable=SCHEDULE_ANYWAY
    ),
)
"""kube-scheduler's default constraints."""


class DefaultConstraint(ConfigModel):
    """A constraint for pods that have none; its selector follows from the pod."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: dict[str, Any] | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = Field(default=(), strict=False)

    @property
    def constraint(self) -> TopologySpreadConstraint:
        """As in a pod."""
        return msgspec.convert(self.model_dump(by_alias=True, exclude_none=True), TopologySpreadConstraint)


class PodTopologySpreadArgs(PluginArgs):
    """How pods without their own constraints are spread if they have Services or owners with a selector."""

    default_constraints: tuple[DefaultConstraint, ...] = Field(default=(), strict=False)
    defaulting_type: Literal["System", "List"] = "System"

    @property
    def is_system(self) -> bool:
        """Whether kube-scheduler's own default constraints apply."""
        return self.defaulting_type == "System"

    @property
    def defaults(self) -> tuple[TopologySpreadConstraint, ...]:
        """The constraints for pods that have none."""
        if self.is_system:
            return SYSTEM_CONSTRAINTS
        return tuple(default.constraint for default in self.default_constraints)

    def problems(self) -> Iterable[FieldError]:
        """Validate as kube-scheduler does."""
        if self.is_system and self.default_constraints:
            yield invalid("defaultingType", self.defaulting_type, "when .defaultConstraints are not empty")
        seen: set[tuple[str, str]] = set()
        for index, default in enumerate(self.default_constraints):
            path = f"defaultConstraints[{index}]"
            yield from _problems(default, path)
            place = default.topology_key, default.when_unsatisfiable
            if place in seen:
                yield duplicate(path, "{%s, %s}" % place)  # noqa: UP031
            seen.add(place)


def _problems(default: DefaultConstraint, path: str) -> Iterable[FieldError]:
    if default.max_skew <= 0:
        yield invalid(f"{path}.maxSkew", default.max_skew, "not in valid range (0, inf)")
    if not default.topology_key:
        yield required(f"{path}.topologyKey", "can not be empty")
    elif problem := labels.key_error(default.topology_key):
        yield invalid(f"{path}.topologyKey", default.topology_key, problem)
    if not default.when_unsatisfiable:
        yield required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif default.when_unsatisfiable not in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
        yield not_supported(
            f"{path}.whenUnsatisfiable", default.when_unsatisfiable, [DO_NOT_SCHEDULE, SCHEDULE_ANYWAY]
        )
    if default.label_selector is not None:
        yield forbidden(
            f"{path}.labelSelector", "constraint must not define a selector, as they deduced for each pod"
        )
