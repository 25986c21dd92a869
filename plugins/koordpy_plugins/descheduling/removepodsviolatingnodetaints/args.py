"""Arguments of RemovePodsViolatingNodeTaints, as in the Kubernetes descheduler."""

from collections.abc import Iterable

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


class RemovePodsViolatingNodeTaintsArgs(UpstreamArgs):
    """Arguments of the plugin. Taints are listed as `KEY` or `KEY=VALUE`."""

    namespaces: UpstreamNamespaces | None = None
    label_selector: UpstreamSelector | None = None
    include_prefer_no_schedule: bool = False
    excluded_taints: Strings = []
    included_taints: Strings | None = None
    """None for all, an empty list for none."""

    def problems(self) -> Iterable[FieldError]:
        """Validate as the descheduler does."""
        yield from namespaces_problems(self.namespaces)
        yield from selector_problems(self.label_selector)
        if self.excluded_taints and self.included_taints:
            yield problem("either includedTaints or excludedTaints can be set, but not both")
