"""Arguments of RemoveDuplicates, as in the Kubernetes descheduler."""

from collections.abc import Iterable

from koordpy.api.field_error import FieldError
from koordpy.descheduling.toolkit.upstream_args import (
    Strings,
    UpstreamArgs,
    UpstreamNamespaces,
    namespaces_problems,
)


class RemoveDuplicatesArgs(UpstreamArgs):
    """Arguments of the plugin."""

    namespaces: UpstreamNamespaces | None = None
    exclude_owner_kinds: Strings = []

    def problems(self) -> Iterable[FieldError]:
        """Validate as the descheduler does."""
        yield from namespaces_problems(self.namespaces)
