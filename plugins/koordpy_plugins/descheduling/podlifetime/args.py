"""Arguments of PodLifeTime, as in the Kubernetes descheduler."""

from collections.abc import Iterable
from typing import Annotated, Final

from koordpy.api.field_error import FieldError
from koordpy.descheduling.toolkit.upstream_args import (
    Int32s,
    Objects,
    Strings,
    Uint,
    UpstreamArgs,
    UpstreamNamespaces,
    UpstreamObject,
    UpstreamSelector,
    namespaces_problems,
    problem,
    selector_problems,
)

STATES: Final = (
    "Completed",
    "ContainerCannotRun",
    "ContainerCreating",
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "DeadlineExceeded",
    "ErrImagePull",
    "Error",
    "Evicted",
    "Failed",
    "ImagePullBackOff",
    "InvalidImageName",
    "NodeAffinity",
    "NodeLost",
    "OOMKilled",
    "Pending",
    "PodInitializing",
    "Running",
    "Shutdown",
    "StartError",
    "Succeeded",
    "UnexpectedAdmissionError",
    "Unknown",
)
"""Phases, reasons of a pod, and reasons for which containers wait or terminated."""


class OwnerKinds(UpstreamObject):
    """Kinds of owners, of which a pod must have one, or must have none."""

    include: Strings = []
    exclude: Strings = []


class PodConditionFilter(UpstreamObject):
    """What a condition must be like; fields that are not set match any."""

    type: str = ""
    status: str = ""
    reason: str = ""
    min_time_since_last_transition_seconds: Uint | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no field is set."""
        return not (self.type or self.status or self.reason) and (
            self.min_time_since_last_transition_seconds is None
        )


class PodLifeTimeArgs(UpstreamArgs):
    """Arguments of the plugin. A pod must meet all criteria that are given."""

    namespaces: UpstreamNamespaces | None = None
    label_selector: UpstreamSelector | None = None
    owner_kinds: OwnerKinds | None = None
    max_pod_life_time_seconds: Uint | None = None
    states: Strings = []
    conditions: Annotated[list[PodConditionFilter], Objects] = []
    exit_codes: Int32s = []
    including_init_containers: bool = False
    including_ephemeral_containers: bool = False

    def problems(self) -> Iterable[FieldError]:
        """Validate as the descheduler does."""
        yield from namespaces_problems(self.namespaces)
        owners = self.owner_kinds
        if owners is not None and owners.include and owners.exclude:
            yield problem("only one of Include/Exclude ownerKinds can be set")
        yield from selector_problems(self.label_selector)
        if not set(self.states) <= set(STATES):
            yield problem(f"states must be one of [{' '.join(STATES)}]")
        for index, condition in enumerate(self.conditions):
            if condition.is_empty:
                yield problem(
                    f"conditions[{index}]: at least one of type, status, reason, or "
                    "minTimeSinceLastTransitionSeconds must be set"
                )
        if self.max_pod_life_time_seconds is None and not (self.states or self.conditions or self.exit_codes):
            yield problem(
                "at least one filtering criterion must be specified (maxPodLifeTimeSeconds, states, "
                "conditions, or exitCodes)"
            )
