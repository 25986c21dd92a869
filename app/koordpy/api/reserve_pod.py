"""The reserve pod: a Reservation in the form of a pod, so that schedulers of pods can schedule it.

It exists only in memory. Name and UID are the Reservation's UID; annotations mark it. Source:
Koordinator, `pkg/util/reservation/reservation.go` (`NewReservePod`, `ReservationRequests`).
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from koordpy.lib import int64

from . import extension
from .core import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from .meta import ObjectMeta, ResourceList
from .quantity import Quantity
from .reservation import DEFAULT_SCHEDULER, FAILED, SUCCEEDED, Reservation, ReservationTemplate
from .resources import pod_requests, quantities

MAX_PRIORITY: Final = (1 << 31) - 1
"""The default priority of a Reservation: nothing preempts it."""

DEFAULT_NAMESPACE: Final = "default"

STAND_IN: Final = "__internal_fake_container__"
"""The container of a reserve pod whose Reservation holds other amounts than its template requests."""

_NO_RESOURCES: Final = ResourceRequirements()


def is_reserve_pod(pod: Pod) -> bool:
    """Return whether a pod is a reserve pod."""
    return pod.metadata.annotations.get(extension.ANNOTATION_RESERVE_POD) == "true"


def reservation_name_of(pod: Pod) -> str:
    """Return the name of the Reservation that a reserve pod stands for."""
    return pod.metadata.annotations.get(extension.ANNOTATION_RESERVATION_NAME, "")


def wanted_node_of(pod: Pod) -> str:
    """Return the node that a reserve pod's template requires, empty if none."""
    return pod.metadata.annotations.get(extension.ANNOTATION_RESERVATION_NODE, "")


def is_pre_allocation(pod: Pod) -> bool:
    """Return whether a reserve pod may take over what running pods hold."""
    return pod.metadata.annotations.get(extension.ANNOTATION_IS_PRE_ALLOCATION) == "true"


def new_reserve_pod(reservation: Reservation) -> Pod:
    """Return the reserve pod of a Reservation. Raises QuantityError."""
    template = reservation.spec.template or ReservationTemplate()
    spec = template.spec
    pod = Pod(
        metadata=_metadata(reservation, template),
        spec=msgspec.structs.replace(
            spec,
            node_name=reservation.status.node_name,
            priority=_priority(reservation, spec),
            scheduler_name=spec.scheduler_name or DEFAULT_SCHEDULER,
        ),
        status=PodStatus(
            phase=reservation.status.phase if reservation.status.phase in (SUCCEEDED, FAILED) else ""
        ),
    )
    if reservation.is_available:
        requests = pod_requests(pod)
        if requests != quantities(reservation.status.allocatable):
            return _holding(pod, _merged(requests, reservation.status.allocatable))
    return pod


def reservation_requests(reservation: Reservation) -> dict[str, Quantity]:
    """Return what a Reservation reserves, or will reserve; empty without a template. Raises QuantityError."""
    if reservation.is_available:
        return quantities(reservation.status.allocatable)
    template = reservation.spec.template
    return {} if template is None else pod_requests(Pod(spec=template.spec))


def reservation_request_list(reservation: Reservation) -> ResourceList:
    """Return the same as text."""
    return {name: str(amount) for name, amount in reservation_requests(reservation).items()}


def resized(pod: Pod, allocated: Mapping[str, Quantity]) -> Pod:
    """Return a reserve pod that requests what was allocated to it, and of other resources the same as before.

    Raises QuantityError.
    """
    return _holding(pod, {name: str(amount) for name, amount in {**pod_requests(pod), **allocated}.items()})


def _metadata(reservation: Reservation, template: ReservationTemplate) -> ObjectMeta:
    meta = reservation.metadata
    annotations = {
        **template.metadata.annotations,
        **meta.annotations,
        extension.ANNOTATION_RESERVE_POD: "true",
        extension.ANNOTATION_RESERVATION_NAME: meta.name,
    }
    if reservation.spec.pre_allocation:
        annotations[extension.ANNOTATION_IS_PRE_ALLOCATION] = "true"
    if template.spec.node_name:
        annotations[extension.ANNOTATION_RESERVATION_NODE] = template.spec.node_name
    return msgspec.structs.replace(
        template.metadata,
        name=meta.uid,
        uid=meta.uid,
        namespace=template.metadata.namespace or DEFAULT_NAMESPACE,
        labels={**template.metadata.labels, **meta.labels},
        annotations=annotations,
    )


def _priority(reservation: Reservation, spec: PodSpec) -> int:
    if spec.priority is not None:
        return spec.priority
    labelled = int64.parse(reservation.metadata.labels.get(extension.LABEL_POD_PRIORITY, ""), 32)
    return MAX_PRIORITY if labelled is None else labelled


def _merged(requests: Mapping[str, Quantity], allocatable: ResourceList) -> ResourceList:
    """For names that `allocatable` lacks, the template's requests are held."""
    return {name: str(amount) for name, amount in requests.items()} | allocatable


def _holding(pod: Pod, amounts: ResourceList) -> Pod:
    """Return the pod with all requests in one separate container."""
    stand_in = Container(name=STAND_IN, resources=ResourceRequirements(requests=amounts, limits=amounts))
    spec = msgspec.structs.replace(
        pod.spec,
        overhead={},
        containers=[*map(_emptied, pod.spec.containers), stand_in],
        init_containers=[_emptied(container) for container in pod.spec.init_containers],
    )
    return msgspec.structs.replace(pod, spec=spec)


def _emptied(container: Container) -> Container:
    return msgspec.structs.replace(container, resources=_NO_RESOURCES)
