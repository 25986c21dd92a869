"""Allocates devices once a node is chosen, and writes down which: ResizePod, Reserve, PreBind.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/plugin.go`.
"""

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.device_allocations import DeviceAllocations, text
from koordpy.api.extension import ANNOTATION_DEVICE_ALLOCATED, ANNOTATION_RESERVATION_RESIZE_ALLOCATABLE
from koordpy.api.meta import ObjectMeta
from koordpy.api.reserve_pod import resized
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import RESIZE_POD
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status

from .adapters.adapter import DevicePluginAdapter
from .adapters.environment import environment_of
from .adapters.vendors import AdaptionError
from .allocation.requests import GPU
from .attempt.allocated import Allocated, allocated_to, forget_allocated, set_allocated
from .attempt.gpu_choice import ChoiceError, GPUChoice, GPUChoices
from .attempt.placing import DevicePlacing
from .attempt.prepared import PREPARED, Prepared
from .rights import ADAPTION_GATE
from .state.ledger import DeviceLedger
from .written import resize_annotation, total, with_ids


class DeviceCommit:
    """Takes devices from the ledger, and gives them back."""

    def __init__(
        self, handle: Handle, ledger: DeviceLedger, placing: DevicePlacing, choices: GPUChoices
    ) -> None:
        self._handle, self._ledger, self._placing, self._choices = handle, ledger, placing, choices
        self._devices = handle.cluster.store(Device)
        self._adapter = DevicePluginAdapter(handle)

    def resize(self, state: CycleState, prepared: Prepared, pod: Pod, node: Node) -> tuple[Pod, Status]:
        """Allocate before the pod is assumed, and return the pod with requests for what it gets."""
        uid, node_name = pod.metadata.uid, node.metadata.name
        known = allocated_to(state, uid, node_name)
        if known is None:
            known, status = self._allocate(state, prepared, pod, node, reserving=False)
            if not status.is_success:
                return pod, status
            if known is None:
                return resized(pod, {}), SUCCESS
            set_allocated(state, uid, known)
        return resized(pod, total(known.devices)), SUCCESS

    def reserve(self, state: CycleState, prepared: Prepared, pod: Pod, node: Node) -> Status:
        """Take what ResizePod found, or what is found now; nothing waits between the two."""
        uid, node_name = pod.metadata.uid, node.metadata.name
        known = allocated_to(state, uid, node_name)
        if known is None or known.reserved:
            known, status = self._allocate(state, prepared, pod, node, reserving=True)
            if not status.is_success or known is None:
                return status
        self._ledger.reserve(node_name, pod.metadata.key, known.devices)
        known.reserved = True
        set_allocated(state, uid, known)
        return SUCCESS

    def _allocate(
        self, state: CycleState, prepared: Prepared, pod: Pod, node: Node, *, reserving: bool
    ) -> tuple[Allocated | None, Status]:
        """Return what the pod gets, with the GPU that a plugin chooses, if that can give the request."""
        try:
            choice = self._choices.choice(state, prepared, pod, node)
        except ChoiceError as error:
            return None, Status.failed(error)
        minor = None if choice is None else choice.minor
        found, status = self._placing.allocate(state, prepared, pod, node, reserving=reserving, gpu=minor)
        if not status.is_success or found is None:
            return None, status
        return Allocated(node.metadata.name, found, remark=_remark(found, choice)), SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Give back what was taken."""
        known = allocated_to(state, pod.metadata.uid, node_name)
        if known is not None:
            if known.reserved:
                self._ledger.release(node_name, pod.metadata.key)
            forget_allocated(state, pod.metadata.uid)

    def forget(self, pod: Pod, node_name: str) -> None:
        """Give back what an assumed pod took, if that is still so."""
        self._ledger.release(node_name, pod.metadata.key)

    # --- writing ---------------------------------------------------------------------------------

    async def write(
        self, state: CycleState, pod: Pod, target: ObjectMeta, node_name: str, binding: Binding
    ) -> Status:
        """Add the devices of a pod to what is written to it, or to the Reservation (`target`)."""
        known = allocated_to(state, pod.metadata.uid, node_name)
        if known is None:
            if state.read(PREPARED) is None and ANNOTATION_DEVICE_ALLOCATED in pod.metadata.annotations:
                # It requests no devices: what it says, of an earlier pod or made up, would count as used.
                binding.annotations[ANNOTATION_DEVICE_ALLOCATED] = text({})
            return SUCCESS  # or kubelet has the node's devices
        device = self._devices.by_key(node_name)
        if device is None:
            return Status.failed(f'device.scheduling.koordinator.sh "{node_name}" not found')
        devices = known.devices = with_ids(known.devices, device)
        binding.annotations[ANNOTATION_DEVICE_ALLOCATED] = text(devices)
        binding.annotations.update(environment_of(target.annotations, devices))
        if known.remark:
            binding.remarks.append(known.remark)
        gates = self._handle.gates
        if ADAPTION_GATE in gates and gates.enabled(ADAPTION_GATE):
            try:
                await self._adapter.adapt(target, devices, node_name, binding)
            except AdaptionError as error:
                return Status.failed(error)
        return SUCCESS

    def write_resize(
        self, state: CycleState, pod: Pod, target: ObjectMeta, node_name: str, binding: Binding
    ) -> Status:
        """Let a Reservation reserve what it was allocated, or say that this is nothing (gate ResizePod)."""
        if state.read(PREPARED) is None or not self._handle.gates.enabled(RESIZE_POD):
            return SUCCESS
        known = allocated_to(state, pod.metadata.uid, node_name)
        annotations = {**target.annotations, **binding.annotations}
        try:
            written = resize_annotation(annotations, {} if known is None else total(known.devices))
        except ValueError as error:
            return Status.failed(error)
        binding.annotations[ANNOTATION_RESERVATION_RESIZE_ALLOCATABLE] = written
        return SUCCESS


def _remark(found: DeviceAllocations, choice: GPUChoice | None) -> str:
    """Return who chose the GPU of a pod that shares one, if a plugin was asked."""
    if choice is None:
        return ""
    minors = [each.minor for each in found.get(GPU, ())]
    if minors == [choice.minor]:
        return f"{choice.plugin} chose GPU {choice.minor}"
    got = ", ".join(map(str, minors))
    return f"DeviceShare chose GPU {got}: GPU {choice.minor}, the choice of {choice.plugin}, does not suffice"
