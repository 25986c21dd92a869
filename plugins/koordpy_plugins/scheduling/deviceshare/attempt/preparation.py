"""Reads what a pod asks of devices, for PreFilter and for restoring reservations."""

from collections.abc import Collection
from dataclasses import replace

from koordpy.api.core import Pod
from koordpy.api.extension import LABEL_PRE_ALLOCATION_REQUIRED
from koordpy.api.reservation_affinity import affinity_of
from koordpy.cluster.device_classes import DeviceClasses
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import INLINE_BATCH_SCHEDULE
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.plan import PLANNED_NODE
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.scheduling_hint import SCHEDULING_HINT

from ..requests.device_requests import device_requests
from ..requests.prepare import designated_allocation, designated_functions, requests_of
from ..templates import GPUSharedResourceTemplates
from .prepared import Prepared


class Preparation:
    """Reads pods for a profile. `with_templates` are the resources of which shares must be templates."""

    def __init__(
        self,
        handle: Handle,
        plugin: str,
        templates: GPUSharedResourceTemplates,
        with_templates: Collection[str],
    ) -> None:
        self._handle, self._plugin = handle, plugin
        self._templates, self._with_templates = templates, with_templates
        self._classes = handle.cluster.shared(DeviceClasses)

    def requests_devices(self, pod: Pod) -> tuple[bool, Status]:
        """Return whether a pod requests devices, or what is wrong with its requests."""
        try:
            return bool(device_requests(pod, self._classes.class_of)), SUCCESS
        except ValueError as error:
            return False, Status.unresolvable(str(error))

    def prepare(self, state: CycleState, pod: Pod) -> tuple[Prepared | None, Status]:
        """Return what the pod asks; None with Skip if it requests no devices, or with what is wrong."""
        try:
            requests = requests_of(
                pod, self._templates.matching, self._with_templates, self._classes.class_of
            )
            designated = designated_allocation(pod)
            if requests is None:
                return None, Status.skip()
            affinity = affinity_of(pod.metadata.annotations)
        except ValueError as error:
            return None, Status.unresolvable(str(error))
        required = pod.metadata.labels.get(LABEL_PRE_ALLOCATION_REQUIRED) == "true"
        prepared = Prepared(requests, affinity is not None or required)
        if designated is not None and self._is_binding(state):
            prepared.designated = designated
            functions = designated_functions(designated)
            prepared.requests = replace(requests, designated_functions=functions)
        return prepared, SUCCESS

    def _is_binding(self, state: CycleState) -> bool:
        """Return whether a recorded allocation alone will do: the scheduling hint names the plugin."""
        hint = state.read(SCHEDULING_HINT)
        if hint is None or self._plugin not in hint.extensions:
            return False
        return not (
            self._handle.gates.enabled(INLINE_BATCH_SCHEDULE) and state.read(PLANNED_NODE) is not None
        )
