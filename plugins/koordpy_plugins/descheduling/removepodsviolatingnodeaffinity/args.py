"""Arguments of RemovePodsViolatingNodeAffinity, as in the Kubernetes descheduler."""

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

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


class RemovePodsViolatingNodeAffinityArgs(UpstreamArgs):
    """Arguments of the plugin."""

    namespaces: UpstreamNamespaces | None = None
    label_selector: UpstreamSelector | None = None
    node_affinity_type: Strings = []
    """`REQUIRED`, `PREFERRED`, in the order of the runs; others are skipped."""

    def problems(self) -> Iterable[FieldError]:
        """Validate as the descheduler does."""
        if not self.node_affinity_type:
            yield problem("nodeAffinityType needs to be set")
        yield from namespaces_problems(self.namespaces)
        yield from selector_problems(self.label_selector)
