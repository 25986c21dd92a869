"""Arguments of RemovePodsHavingTooManyRestarts, as in the Kubernetes descheduler."""

from collections.abc import Iterable
from typing import Final

from koordpy.api.config_model import Int32
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

STATES: Final = ("CrashLoopBackOff", "Running")


class RemovePodsHavingTooManyRestartsArgs(UpstreamArgs):
    """Arguments of the plugin."""

    namespaces: UpstreamNamespaces | None = None
    label_selector: UpstreamSelector | None = None
    pod_restart_threshold: Int32 = 0
    including_init_containers: bool = False
    states: Strings = []
    """Phases, and reasons for which containers wait; empty for all pods."""

    def problems(self) -> Iterable[FieldError]:
        """Validate as the descheduler does."""
        yield from namespaces_problems(self.namespaces)
        yield from selector_problems(self.label_selector)
        if self.pod_restart_threshold < 1:
            yield problem("invalid PodsHavingTooManyRestarts threshold")
        if not set(self.states) <= set(STATES):
            yield problem(f"states must be one of [{' '.join(STATES)}]")
