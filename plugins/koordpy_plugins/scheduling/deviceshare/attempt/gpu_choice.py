"""Lets plugins that score by GPUs see them, and choose the GPU of a pod that shares one.

What DeviceShare accounts for is written into the state of every attempt, also of pods without GPUs: they take
CPU away from GPUs. The profile's plugins with `ChooseGPU` are asked at Reserve; the allocation is tried with
the GPU that they choose, and as ever if that one cannot give the request.
"""

from dataclasses import dataclass

from koordpy.api.core import Node, Pod
from koordpy.cluster.columns import CPU
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gpus import GPU_REQUEST, GPUS
from koordpy.scheduling.interface.handle import Handle

from ..allocation.requests import GPU
from ..requests.gpu_request import gpu_request
from ..state.free_gpus import FreeGPUs
from .prepared import Prepared


@dataclass(frozen=True, slots=True)
class GPUChoice:
    """A GPU by its minor, and the plugin that chose it."""

    plugin: str
    minor: int


class ChoiceError(Exception):
    """A plugin raised when it was asked to choose; the message names it."""


class GPUChoices:
    """Shows the GPUs to the plugins of a profile, and asks these."""

    def __init__(self, handle: Handle, gpus: FreeGPUs) -> None:
        self._handle, self._gpus = handle, gpus

    def show(self, state: CycleState, pod: Pod, prepared: Prepared | None) -> None:
        """Write what nodes have left, and what the pod requests, into the state of an attempt."""
        state.write(GPUS, self._gpus.columns())
        wanted = prepared.requests.gpu if prepared is not None else None
        columns, amounts, _ = self._handle.nodes.share_of(pod)
        cpu = next((amount for column, amount in zip(columns, amounts, strict=True) if column == CPU), 0)
        memory = None if wanted is None else self._gpus.memory()
        request = gpu_request(pod, cpu, wanted, memory)
        if request is None:
            state.delete(GPU_REQUEST)
        else:
            state.write(GPU_REQUEST, request)

    def choice(self, state: CycleState, prepared: Prepared, pod: Pod, node: Node) -> GPUChoice | None:
        """Return the GPU that a plugin chooses; None if none is asked, or none chooses. Raises ChoiceError.

        What comes before a choice: a recorded allocation, the pod's nominated reservation, hints about GPUs,
        and allocating them jointly with other devices.
        """
        choosers, request = self._handle.gpu_choosers, state.read(GPU_REQUEST)
        if not choosers or request is None or not request.is_shared:
            return None
        requests, name = prepared.requests, node.metadata.name
        if prepared.designated is not None or GPU in requests.hints or requests.joint is not None:
            return None
        if self._handle.reservations.nominated(pod, name, state) is not None:
            return None
        row = self._handle.nodes.row_of(name)
        if row is None:
            return None
        state.write(GPUS, self._gpus.columns())
        for plugin, chooser in choosers:
            try:
                minor = chooser.choose_gpu(state, pod, row)
            except Exception as error:
                raise ChoiceError(f"{plugin}: choosing a GPU: {type(error).__name__}: {error}") from error
            if minor is not None:
                return GPUChoice(plugin, minor)
        return None
