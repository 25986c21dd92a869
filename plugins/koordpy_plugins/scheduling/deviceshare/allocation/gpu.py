"""Which GPUs of a node a pod gets: by template, by partition, by place, or by score.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/allocator_gpu.go`.
"""

from collections.abc import Mapping
from dataclasses import replace

from koordpy.api.device_allocations import DeviceAllocation
from koordpy.api.extension import LABEL_GPU_MODEL, LABEL_GPU_VENDOR
from koordpy.scheduling.interface.status import SUCCESS, Code, Status

from ..scoring import Scorer
from ..state import partitions
from ..state.exact import is_zero
from ..state.minors import bits_of
from . import default, partitioning, reasons
from .default import Chosen, Selection
from .gpu_topology import TopologySearch
from .requests import GPU, GPURequirements
from .view import View

Result = tuple[Chosen, Status]


def allocate(
    view: View,
    wanted: GPURequirements,
    selection: Selection,
    node_labels: Mapping[str, str],
    scorer: Scorer | None,
) -> Result:
    """Return the GPUs in the order of choice, or why there are none.

    `selection` is what the default selection uses, which counts where nothing is known of places.
    """
    if wanted.enforces_templates:
        key = f"{node_labels.get(LABEL_GPU_VENDOR, '')}-{node_labels.get(LABEL_GPU_MODEL, '')}"
        candidates = wanted.templates.get(key, ())
        if not candidates:
            return (), reasons.NO_TEMPLATE
        if len(candidates) == 1:
            chosen, status = _general(view, wanted, selection, scorer)
            (template,) = candidates
            return tuple(replace(each, template=template) for each in chosen), status
    if not wanted.shared:
        chosen, status = _partition(view, wanted, node_labels)
        if chosen or not status.is_success:
            return chosen, status
    return _general(view, wanted, selection, scorer)


def _partition(view: View, wanted: GPURequirements, node_labels: Mapping[str, str]) -> Result:
    """Return the GPUs of a partition. A failure is one only if partitions are honored."""
    index, honors = view.partitions, view.honors_partitions
    if index is None:
        index, honors = partitions.of_node(node_labels), partitions.honors(node_labels)
    if index is None and not (honors or wanted.honors_partitions):
        return (), SUCCESS
    gpus = view.of(GPU)
    healthy = bits_of(minor for minor, total in gpus.total.items() if not is_zero(total))
    found = partitioning.choose(index, wanted, used_bits(view), healthy)
    if isinstance(found, Status):
        return (), found if honors or wanted.honors_partitions else SUCCESS
    return _allocations(found.minors, wanted), SUCCESS


def _general(view: View, wanted: GPURequirements, selection: Selection, scorer: Scorer | None) -> Result:
    chosen, status = _by_place(view, wanted, scorer)
    if not status.is_success:
        if wanted.required_scope or status.code is not Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return (), status
    elif chosen:
        return chosen, SUCCESS
    by_score = default.select(view.of(GPU), selection, scorer)
    return ((), reasons.too_few_devices(GPU)) if by_score is None else (by_score, SUCCESS)


def _by_place(view: View, wanted: GPURequirements, scorer: Scorer | None) -> Result:
    """Return GPUs that are near each other."""
    if view.gpu_topology is None:
        return (), reasons.MISSING_TOPOLOGY
    if wanted.shared and wanted.count > 1:
        return (), reasons.SHARED_GPUS
    search = TopologySearch(view.of(GPU), used_bits(view), wanted, scorer)
    minors = search.search(view.gpu_topology)
    if minors is None:
        return (), reasons.NO_TOPOLOGY_SCOPE if wanted.required_scope else reasons.NO_GPUS
    return _allocations(minors, wanted), SUCCESS


def used_bits(view: View) -> int:
    """Return the GPUs in use: by the view those that it has, by the usage of the node the others."""
    gpus = view.of(GPU)
    return bits_of(gpus.used) | bits_of(minor for minor in gpus.known_used if minor not in gpus.total)


def _allocations(minors: tuple[int, ...], wanted: GPURequirements) -> Chosen:
    return tuple(DeviceAllocation(minor, wanted.per_gpu) for minor in minors)
