"""Which pods PodLifeTime chooses: those that meet all criteria of its arguments."""

from collections.abc import Iterable

from koordpy.api.core import Pod
from koordpy.api.meta import Condition
from koordpy.descheduling.toolkit import container_states, pod_age
from koordpy.lib.clock import Clock

from .args import PodConditionFilter, PodLifeTimeArgs


class Criteria:
    """The criteria of one plugin. Ages are in whole seconds."""

    def __init__(self, args: PodLifeTimeArgs, clock: Clock) -> None:
        self._args = args
        self._clock = clock
        self._states = frozenset(args.states)
        self._exit_codes = frozenset(args.exit_codes)
        owners = args.owner_kinds
        self._with_owners = frozenset(owners.include) if owners else frozenset()
        self._without_owners = frozenset(owners.exclude) if owners else frozenset()

    def reason(self, pod: Pod) -> str | None:
        """Return which criteria a pod meets; None if it does not meet all."""
        reasons = []
        most = self._args.max_pod_life_time_seconds
        if most is not None:
            age = pod_age.seconds(pod, self._clock.now())
            if age < 0 or int(age) <= most:
                return None
            reasons.append(f"it is {int(age)} s old, maxPodLifeTimeSeconds is {most}")
        if self._states:
            state = next((state for state in self._states_of(pod) if state in self._states), None)
            if state is None:
                return None
            reasons.append(f"its state is {state}")
        if not self._owners_match(pod):
            return None
        if self._args.conditions:
            condition = next(filter(self._matches_any, pod.status.conditions), None)
            if condition is None:
                return None
            reasons.append(f"its condition {condition.type} is {condition.status}")
        if self._exit_codes:
            code = next((code for code in self._exit_codes_of(pod) if code in self._exit_codes), None)
            if code is None:
                return None
            reasons.append(f"a container exited with {code}")
        return "; ".join(reasons)

    def _states_of(self, pod: Pod) -> Iterable[str]:
        status = pod.status
        yield status.phase
        yield status.reason
        yield from container_states.reasons(status.container_statuses)
        if self._args.including_init_containers:
            yield from container_states.reasons(status.init_container_statuses)
        if self._args.including_ephemeral_containers:
            yield from container_states.reasons(status.ephemeral_container_statuses)

    def _exit_codes_of(self, pod: Pod) -> Iterable[int]:
        yield from container_states.exit_codes(pod.status.container_statuses)
        if self._args.including_init_containers:
            yield from container_states.exit_codes(pod.status.init_container_statuses)

    def _owners_match(self, pod: Pod) -> bool:
        kinds = {owner.kind for owner in pod.metadata.owner_references}
        if self._with_owners:
            return not kinds.isdisjoint(self._with_owners)
        return kinds.isdisjoint(self._without_owners)

    def _matches_any(self, condition: Condition) -> bool:
        return any(self._matches(condition, wanted) for wanted in self._args.conditions)

    def _matches(self, condition: Condition, wanted: PodConditionFilter) -> bool:
        if (
            (wanted.type and wanted.type != condition.type)
            or (wanted.status and wanted.status != condition.status)
            or (wanted.reason and wanted.reason != condition.reason)
        ):
            return False
        least = wanted.min_time_since_last_transition_seconds
        if least is None:
            return True
        if not condition.last_transition_time:
            return False
        idle = pod_age.since(condition.last_transition_time, self._clock.now())
        return idle >= 0 and int(idle) >= least
