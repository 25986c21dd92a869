"""Arguments of RemovePodsViolatingInterPodAntiAffinity, as in the Kubernetes descheduler."""

from collections.abc import Iterable

from koordpy.api.field_error import FieldError
from koordpy.descheduling.toolkit.upstream_args import (
    UpstreamArgs,
    UpstreamNamespaces,
    UpstreamSelector,
    namespaces_problems,
    selector_problems,
)


class RemovePodsViolatingInterPodAntiAffinityArgs(UpstreamArgs):
    """Arguments of the plugin. Other pods count neither as victims nor as those that they violate."""

    namespaces: UpstreamNamespaces | None = None
    label_selector: UpstreamSelector | None = None

    def problems(self) -> Iterable[FieldError]:
        """Validate as the descheduler does."""
        yield from namespaces_problems(self.namespaces)
        yield from selector_problems(self.label_selector)
