"""What a pod requests of GPUs, for plugins that score by them (`koordpy.scheduling.interface.gpus`)."""

from collections.abc import Mapping
from typing import Final

from koordpy.api.core import NodeSelectorTerm, Pod
from koordpy.api.extension import GPU_MEMORY, GPU_MEMORY_RATIO, LABEL_GPU_MODEL
from koordpy.api.quantity import Quantity
from koordpy.scheduling.interface.gpus import WHOLE_GPU, GPURequest

from ..allocation.requests import GPURequirements
from ..state.free_gpus import PERCENT, milli_of

_ANY: Final[frozenset[str]] = frozenset()


def gpu_request(pod: Pod, cpu: int, wanted: GPURequirements | None, memory: int | None) -> GPURequest | None:
    """Return a request of `cpu` milli-CPU and GPUs; None if how much of a GPU it is depends on the node.

    So it is with a request in bytes alone where GPUs differ: `memory` is what all GPUs of the cluster have.
    """
    if wanted is None:
        return GPURequest(cpu)
    milli = _milli(wanted.per_gpu, memory)
    if milli is None:
        return None
    return GPURequest(cpu, wanted.count, milli, models_of(pod))


def _milli(per_gpu: Mapping[str, Quantity], memory: int | None) -> int | None:
    """Return milli-GPU of each GPU; bytes are rounded up to a percent, so that they fit what is left."""
    milli = milli_of(per_gpu)
    if GPU_MEMORY_RATIO not in per_gpu and GPU_MEMORY in per_gpu:
        if memory is None:
            return None
        milli = max(milli, -(-per_gpu[GPU_MEMORY].value() * 100 // memory) * PERCENT)
    return min(milli, WHOLE_GPU)


def models_of(pod: Pod) -> frozenset[str]:
    """Return the models of GPUs that a pod may use by its node selector and affinity; empty for any.

    Only values that the label of the model must have count; what else an affinity says is left to filters.
    """
    spec = pod.spec
    selected = spec.node_selector.get(LABEL_GPU_MODEL)
    named = None if selected is None else frozenset((selected,))
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if required is not None:
        terms = [_models_of(term) for term in required.node_selector_terms]
        limited = [models for models in terms if models is not None]
        if limited and len(limited) == len(terms):
            together = _ANY.union(*limited)
            named = together if named is None else named & together
    return named or _ANY


def _models_of(term: NodeSelectorTerm) -> frozenset[str] | None:
    """Return the models that a term allows, None for any."""
    found: frozenset[str] | None = None
    for each in term.match_expressions:
        if each.key == LABEL_GPU_MODEL and each.operator == "In":
            values = frozenset(each.values)
            found = values if found is None else found & values
    return found
