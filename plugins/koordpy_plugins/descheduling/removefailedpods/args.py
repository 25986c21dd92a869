"""Arguments of RemoveFailedPods, as in the Kubernetes descheduler."""

from collections.abc import Iterable

from koordpy.api.field_error import FieldError
from koordpy.descheduling.toolkit.upstream_args import (
    Int32s,
    Strings,
    Uint,
    UpstreamArgs,
    UpstreamNamespaces,
    UpstreamSelector,
    namespaces_problems,
    selector_problems,
)


class RemoveFailedPodsArgs(UpstreamArgs):
    """Arguments of the plugin. A pod must meet all criteria that are given."""

    namespaces: UpstreamNamespaces | None = None
    label_selector: UpstreamSelector | None = None
    exclude_owner_kinds: Strings = []
    min_pod_lifetime_seconds: Uint | None = 3600
    """None for any age."""
    reasons: Strings = []
    exit_codes: Int32s = []
    including_init_containers: bool = False

    def problems(self) -> Iterable[FieldError]:
        """Validate as the descheduler does."""
        yield from namespaces_problems(self.namespaces)
        yield from selector_problems(self.label_selector)
