"""Arguments of RemovePodsViolatingTopologySpreadConstraint, as in the Kubernetes descheduler."""

from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import BeforeValidator

from koordpy.api.field_error import FieldError
from koordpy.descheduling.toolkit.upstream_args import (
    Strings,
    UpstreamArgs,
    UpstreamNamespaces,
    UpstreamSelector,
    namespaces_problems,
    problem,
    selector_problems,
)

DO_NOT_SCHEDULE: Final = "DoNotSchedule"
SCHEDULE_ANYWAY: Final = "ScheduleAnyway"


def _over_default(value: object) -> object:
    """Go decodes a list into the default one: a null there keeps the default's item."""
    if isinstance(value, list) and value and value[0] is None:
        return [DO_NOT_SCHEDULE, *value[1:]]
    return value


class RemovePodsViolatingTopologySpreadConstraintArgs(UpstreamArgs):
    """Arguments of the plugin."""

    namespaces: UpstreamNamespaces | None = None
    label_selector: UpstreamSelector | None = None
    constraints: Annotated[Strings | None, BeforeValidator(_over_default)] = [DO_NOT_SCHEDULE]
    """The considered values of `whenUnsatisfiable`; with None or an empty list no constraint is."""
    topology_balance_node_fit: bool | None = True
    """Whether a pod must fit another node; None means true."""

    def problems(self) -> Iterable[FieldError]:
        """Validate as the descheduler does."""
        yield from namespaces_problems(self.namespaces)
        yield from selector_problems(self.label_selector)
        for constraint in self.constraints or ():
            if constraint not in (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY):
                yield problem(
                    f"constraint {constraint} is not one of "
                    f"map[{DO_NOT_SCHEDULE}:{{}} {SCHEDULE_ANYWAY}:{{}}]"
                )
