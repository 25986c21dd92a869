"""A reservation as scheduling sees it: what it offers, what is allocated, and to which pods.

A reservation is a Reservation object or a pod that acts as one (an *operating* pod). The state can be rebuilt
from the objects: allocatable from the reservation, allocated from the pods that name it. Amounts are exact
quantities; the vectors beside them (cpu in milli, all else in base units, names that nodes count) are what
arithmetic on nodes uses.

Source: Koordinator, `pkg/scheduler/frameworkext/reservation_info.go`.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import ContainerPort, Node, Pod, Taint
from koordpy.api.quantity import ZERO, Quantity
from koordpy.api.reservation import ALIGNED, RESTRICTED, Reservation, ReservationOwner
from koordpy.api.reservation_affinity import ReservationAffinity, label_overlay
from koordpy.api.reservation_owners import NOBODY, OwnersError, owner_matchers
from koordpy.api.reserve_pod import new_reserve_pod, reservation_requests
from koordpy.api.resource_names import CPU, MEMORY
from koordpy.api.resources import (
    DEFAULT_MEMORY,
    DEFAULT_MILLI_CPU,
    Vector,
    counted,
    pod_node_request_vector,
    pod_nonzero_request,
    pod_requests,
    vector,
)
from koordpy.api.scheme import DecodeError

log = logging.getLogger(__name__)

Quantities = dict[str, Quantity]

ANY_IP = "0.0.0.0"


class HostPort(NamedTuple):
    """A port of a node."""

    ip: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod that uses a reservation, and its requests when it was counted."""

    namespace: str
    name: str
    uid: str
    requests: Mapping[str, Quantity]
    ports: frozenset[HostPort] = frozenset()

    @classmethod
    def of(cls, pod: Pod) -> "AssignedPod":
        """Record a pod's current requests. Raises QuantityError."""
        meta = pod.metadata
        return cls(meta.namespace, meta.name, meta.uid, pod_requests(pod), frozenset(host_ports(pod)))


class ReservationInfo:
    """One reservation and the pods that use it. Changed only by its owner; other components get `clone`s."""

    def __init__(self, subject: Reservation | Pod) -> None:
        self.revision = 0
        """Incremented with every change."""
        self.assigned: dict[str, AssignedPod] = {}
        """The pods that use it, by UID."""
        self.allocated: Quantities | None = None
        """What they use of `resource_names`, without any cap; None before the first one."""
        self.reserved: Quantities = {}
        """What no pod can use of it."""
        self._read(subject)

    def update(self, subject: Reservation | Pod) -> None:
        """Apply a changed object; the pods that use it stay. Raises QuantityError."""
        before = frozenset(self.resource_names)
        self._read(subject)
        names = frozenset(self.resource_names)
        if self.allocated is not None or self.reservation is None:
            self.allocated = _mask(self.allocated or {}, names)
            for name in names - before:
                amounts = [pod.requests[name] for pod in self.assigned.values() if name in pod.requests]
                if amounts:
                    self.allocated[name] = sum(amounts, ZERO)
        self.reserved = _mask(self.reserved, names)
        self._recount()

    def _read(self, subject: Reservation | Pod) -> None:
        self.reservation: Reservation | None = subject if isinstance(subject, Reservation) else None
        self.pod = new_reserve_pod(subject) if isinstance(subject, Reservation) else subject
        """The reserve pod, or the operating pod itself."""
        self.meta = subject.metadata
        errors: list[str] = []
        self.allocatable: Quantities = (
            reservation_requests(subject) if isinstance(subject, Reservation) else pod_requests(subject)
        )
        self.reserved = annotations.inner_reserved(self.meta.annotations)
        self.resource_names = self._names(errors)
        self.owners = NOBODY
        try:
            self.owners = owner_matchers(self._owners(subject))
        except OwnersError as error:
            errors.append(str(error))
        self.parse_error = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]" if errors else ""
        """Why no pod can use it: something in it is invalid."""
        self.order = annotations.order(self.meta.labels)
        self.ports = frozenset(host_ports(self.pod))
        """Host ports that it holds."""
        self.held = pod_node_request_vector(self.pod)
        """What it holds on its node while no pod uses it."""
        self.nonzero_held = pod_nonzero_request(self.pod)
        self._recount()

    def _owners(self, subject: Reservation | Pod) -> Sequence[ReservationOwner]:
        """Return the owners; invalid owners match no pod."""
        if isinstance(subject, Reservation):
            return subject.spec.owners
        try:
            return annotations.operating_owners(self.meta.annotations)
        except DecodeError as error:
            log.warning("pod %s acts as a reservation: its owners: %s", self.meta.key, error)
            return ()

    def _names(self, errors: list[str]) -> tuple[str, ...]:
        names = tuple(sorted(self.allocatable))
        if self.reservation is not None and self.policy != RESTRICTED:
            return names
        try:
            options = annotations.restricted_options(self.meta.annotations)
        except DecodeError as error:
            errors.append(str(error))
            return names
        return annotations.resource_names(names, options)

    # --- the reservation -------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the Reservation, or of the operating pod."""
        return self.meta.name

    @property
    def uid(self) -> str:
        """The UID of the Reservation, or of the operating pod."""
        return self.meta.uid

    @property
    def node_name(self) -> str:
        """The node on which resources are reserved."""
        return self.pod.spec.node_name

    @property
    def policy(self) -> str:
        """The allocate policy: empty (Default), Aligned or Restricted."""
        return ALIGNED if self.reservation is None else self.reservation.spec.allocate_policy

    @property
    def taints(self) -> Sequence[Taint]:
        """The reservation's own taints."""
        return () if self.reservation is None else self.reservation.spec.taints

    @property
    def is_allocate_once(self) -> bool:
        """Whether one pod uses it up."""
        return self.reservation is None or self.reservation.is_allocate_once

    @property
    def is_terminating(self) -> bool:
        """Whether it is being deleted."""
        return self.meta.deletion_timestamp is not None

    @property
    def is_unschedulable(self) -> bool:
        """Whether it accepts only pods that tolerate that, or require it by name."""
        return self.is_terminating or (self.reservation is not None and self.reservation.spec.unschedulable)

    @property
    def is_available(self) -> bool:
        """Whether it holds resources: the Reservation is Available, or the pod is running and ready."""
        if self.reservation is not None:
            return self.reservation.is_available
        ready = next((each for each in self.pod.status.conditions if each.type == "Ready"), None)
        return self.pod.status.phase == "Running" and ready is not None and ready.status == "True"

    @property
    def is_pre_allocation(self) -> bool:
        """Whether it is a Reservation that takes over running pods, also once it has done so."""
        return self.reservation is not None and self.reservation.spec.pre_allocation

    @property
    def is_used_up(self) -> bool:
        """Whether no further pod can use it."""
        return self.is_allocate_once and bool(self.assigned)

    @property
    def is_matchable(self) -> bool:
        """Whether pods can use it."""
        return self.is_available and not self.parse_error and not self.is_used_up

    @property
    def priority(self) -> int:
        """The priority of the template, 0 if it has none."""
        spec = self.pod.spec
        if self.reservation is not None:
            template = self.reservation.spec.template
            return (template.spec.priority if template else None) or 0
        return spec.priority or 0

    # --- who may use it --------------------------------------------------------------------------

    def has_owner(self, pod: Pod) -> bool:
        """Return whether a pod is among its owners. Always false if it is invalid."""
        return not self.parse_error and self.owners.matches(pod)

    def accepted_by(
        self, affinity: ReservationAffinity | None, node: Node, *, omit_node_labels: bool = False
    ) -> bool:
        """Return whether labels and name match a pod's reservation affinity."""
        if affinity is None:
            return True
        labels = label_overlay(node.metadata.labels, self.meta.labels, omit_node_labels=omit_node_labels)
        return affinity.matches(labels, self.name)

    # --- the pods that use it --------------------------------------------------------------------

    def assign(self, pod: AssignedPod) -> None:
        """Count a pod; one that is already counted stays as it was."""
        if pod.uid in self.assigned:
            return
        self.assigned[pod.uid] = pod
        allocated = dict(self.allocated or {})
        for name in self.resource_names:
            amount = pod.requests.get(name)
            if amount is not None:
                known = allocated.get(name)
                allocated[name] = amount if known is None else known + amount
        self.allocated = allocated
        self._recount()

    def unassign(self, uid: str) -> None:
        """Stop counting a pod; what it used stays as an explicit 0."""
        pod = self.assigned.pop(uid, None)
        if pod is None:
            return
        allocated = dict(self.allocated or {})
        for name in self.resource_names:
            amount = pod.requests.get(name)
            if amount is not None:
                left = allocated.get(name, ZERO) - amount
                allocated[name] = left if left > ZERO else ZERO
        self.allocated = allocated
        self._recount()

    @property
    def allocated_ports(self) -> frozenset[HostPort]:
        """The host ports that the pods use."""
        return frozenset(port for pod in self.assigned.values() for port in pod.ports)

    def _recount(self) -> None:
        self.revision += 1
        allocated = self.allocated or {}
        left: Quantities = {}
        for name in {**self.allocatable, **allocated, **self.reserved}:
            amount = (
                self.allocatable.get(name, ZERO) - allocated.get(name, ZERO) - self.reserved.get(name, ZERO)
            )
            left[name] = amount if amount > ZERO else ZERO
        self.available: Vector = counted(vector(left))
        """What pods can still use of it."""
        self.allocated_vector: Vector = counted(vector(allocated))
        self.nonzero_allocated = (0, 0)
        if self.allocated is not None:
            self.nonzero_allocated = (
                self.allocated_vector.get(CPU, DEFAULT_MILLI_CPU),
                self.allocated_vector.get(MEMORY, DEFAULT_MEMORY),
            )

    def clone(self) -> "ReservationInfo":
        """Return an independent copy."""
        copy = object.__new__(ReservationInfo)
        copy.__dict__.update(self.__dict__)
        copy.assigned = dict(self.assigned)
        return copy


def host_ports(pod: Pod) -> Iterator[HostPort]:
    """Yield the host ports of all containers, init containers included."""
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        for port in container.ports:
            if port.host_port > 0:
                yield _host_port(port)


def _host_port(port: ContainerPort) -> HostPort:
    return HostPort(port.host_ip or ANY_IP, port.protocol or "TCP", port.host_port)


def _mask(amounts: Mapping[str, Quantity], names: frozenset[str]) -> Quantities:
    return {name: amount for name, amount in amounts.items() if name in names}
