"""What one pod or one Reservation holds of its node."""

from collections.abc import Mapping
from typing import Final

import msgspec

from koordpy.api import extension, reservation_annotations
from koordpy.api.core import Pod
from koordpy.api.quantity import QuantityError
from koordpy.api.reservation import Reservation
from koordpy.api.reserve_pod import new_reserve_pod

from .amounts import NOTHING, RequestReader, Requests
from .annotations import NO_CPUS, NO_DEVICES, AnnotationReader, CPUs, Devices

POD, RESERVATION = "Pod", "Reservation"

_NO_ANNOTATIONS: Final[Mapping[str, str]] = {}


class Holding(msgspec.Struct, gc=False, kw_only=True):
    """A pod or a Reservation on a node, and what it holds.

    `uid` is the object's, or its kind and name in dumps without UIDs. `reservation` is the UID of the
    reservation that a pod uses, empty for none. `ignores_reservations` is whether a pod may use what is
    reserved for others. `reserves` is whether its owners use what it holds: a Reservation, or a pod that
    acts as one.
    """

    kind: str
    name: str
    uid: str
    node: str
    requests: Requests
    cpus: CPUs = NO_CPUS
    devices: Devices = NO_DEVICES
    reservation: str = ""
    ignores_reservations: bool = False
    reserves: bool = False
    is_leaving: bool = False
    unreadable: tuple[str, ...] = ()


class HoldingReader:
    """Reads holdings; equal texts are read once."""

    def __init__(self) -> None:
        self.requests = RequestReader()
        self.annotations = AnnotationReader()

    def of_pod(self, pod: Pod) -> Holding:
        """Return what a bound pod holds."""
        meta = pod.metadata
        key, annotations, labels = f"{meta.namespace}/{meta.name}", meta.annotations, meta.labels
        holding = Holding(
            kind=POD,
            name=key,
            uid=meta.uid or f"{POD} {key}",
            node=pod.spec.node_name,
            requests=self.requests.of(pod),
            is_leaving=meta.deletion_timestamp is not None,
        )
        if annotations:
            self._read(holding, annotations)
            if extension.ANNOTATION_RESERVATION_ALLOCATED in annotations:
                used = reservation_annotations.allocated(annotations)
                holding.reservation = used.uid if used is not None else ""
        if labels:
            if extension.LABEL_RESERVATION_IGNORED in labels:
                holding.ignores_reservations = reservation_annotations.is_ignored_by(pod)
            if extension.LABEL_POD_OPERATING_MODE in labels:
                holding.reserves = reservation_annotations.is_operating(meta)
        return holding

    def of_reservation(self, reservation: Reservation) -> Holding:
        """Return what an Available or Waiting Reservation holds; what its owners use is a part of it."""
        meta = reservation.metadata
        requests, unreadable = NOTHING, tuple[str, ...]()
        annotations: Mapping[str, str] = _NO_ANNOTATIONS
        try:
            stand_in = new_reserve_pod(reservation)
            requests = self.requests.of(stand_in)
            annotations = stand_in.metadata.annotations
        except QuantityError as error:
            unreadable = (str(error),)
        holding = Holding(
            kind=RESERVATION,
            name=meta.name,
            uid=meta.uid or f"{RESERVATION} {meta.name}",
            node=reservation.status.node_name,
            requests=requests,
            reserves=True,
            is_leaving=meta.deletion_timestamp is not None,
            unreadable=unreadable,
        )
        self._read(holding, annotations)
        return holding

    def _read(self, holding: Holding, annotations: Mapping[str, str]) -> None:
        if extension.ANNOTATION_RESOURCE_STATUS in annotations:
            try:
                holding.cpus = self.annotations.cpus(annotations)
            except ValueError as error:
                holding.unreadable += (str(error),)
        if extension.ANNOTATION_DEVICE_ALLOCATED in annotations:
            try:
                holding.devices = self.annotations.devices(annotations)
            except ValueError as error:
                holding.unreadable += (str(error),)
