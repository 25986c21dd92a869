"""The devices of all nodes, and what pods have of them: one ledger for all profiles of a cluster.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/device_cache.go`, `eventhandler_*.go`.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar, Final

import msgspec

from koordpy.api import device_allocations, extension
from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.device_allocations import MOST_DEVICES, DeviceAllocation, DeviceAllocations
from koordpy.api.meta import KubeObject
from koordpy.api.quantity import ZERO
from koordpy.api.reservation import Reservation, ReservationTemplate, validate
from koordpy.api.reserve_pod import DEFAULT_NAMESPACE
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState, Snapshot

from . import partitions
from .claims import Claims, Source
from .metrics import NOT_WELL_PLANNED
from .node_devices import NodeDevices

log = logging.getLogger(__name__)

_NOTHING: Final[DeviceAllocations] = {}

MOST_FUNCTIONS: Final = 1 << 14
"""The virtual functions that a Device may list."""


class DeviceLedger(DerivedState):
    """NodeDevices by the names of nodes.

    Derived from Devices, from the annotations of pods and Reservations, and from allocations that no object
    shows yet. After a Device was deleted, the last one is still known as long as its Node exists, so that
    nothing is allocated twice once it returns; it is not part of the snapshot. Used minors that a Device does
    not list count as devices until it changes.
    """

    one_per_cluster: ClassVar[bool] = True
    settled_by: ClassVar[tuple[type[KubeObject], ...]] = (Device,)

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._known: dict[str, NodeDevices] = {}
        self._claims = Claims()
        self._reservation_places: dict[str, tuple[str, str]] = {}
        self._on_change: list[Callable[[str], None]] = []
        self._versions: dict[str, int] = {}
        self._changes = count(1)
        self._nodes = self.follow(Node, None, None, self._node_deleted)
        self._devices = self.follow(
            Device, self._device_set, lambda _, new: self._device_set(new), self._device_deleted
        )
        self.follow(Pod, self._pod_set, self._pod_updated, self._pod_deleted)
        self.follow(
            Reservation,
            self._reservation_set,
            lambda _, new: self._reservation_set(new),
            self._reservation_deleted,
        )
        self.at_close(NOT_WELL_PLANNED.clear)

    def snapshot(self) -> Snapshot:
        """Return by node what pods use, and what the Device of the node says."""
        shown = {}
        for name, devices in self._known.items():
            has_device = name in self._devices
            if has_device or not devices.is_unused:
                shown[name] = _usage_shown(devices) | (_device_shown(devices) if has_device else {})
        return shown

    def unconfirmed(self) -> Collection[str]:
        """Return the pods (`namespace/name`) that were given devices and are not yet observed on a node."""
        return list(self._claims.reserved)

    # --- reading ---------------------------------------------------------------------------------

    def node(self, name: str) -> NodeDevices | None:
        """Return the devices of a node; None if it has no Device, and no pod has any device of it."""
        return self._known.get(name)

    def version(self, name: str) -> int:
        """Return a number that no earlier or later state of a node's devices has; 0 without devices."""
        return self._versions.get(name, 0)

    def __iter__(self) -> Iterator[tuple[str, NodeDevices]]:
        """Yield the nodes with their devices, by name."""
        for name in sorted(self._known):
            yield name, self._known[name]

    def on_change(self, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call a handler with the name of each node whose devices change, known ones first.

        Returns the function that ends it.
        """
        self._on_change.append(changed)
        for name in list(self._known):
            changed(name)
        return lambda: self._on_change.remove(changed)

    # --- allocations -----------------------------------------------------------------------------

    def reserve(self, node: str, key: str, allocations: DeviceAllocations) -> None:
        """Give devices of a node to a pod (`namespace/name`), until an object shows them or `release`."""
        known = self._claims.node_of_reserved(key)
        if known is not None and known != node:
            self.release(known, key)
        self._claim(node, key, Source.RESERVED, allocations)

    def release(self, node: str, key: str) -> None:
        """Take back what was given to a pod; what an object shows stays."""
        if self._claims.node_of_reserved(key) == node:
            self._claim(node, key, Source.RESERVED, _NOTHING)

    def _claim(self, node: str, key: str, source: Source, allocations: DeviceAllocations) -> None:
        before = self._claims.of(node, key)
        self._claims.set(node, key, source, allocations)
        now = self._claims.of(node, key)
        if before is now or before == now:
            return
        devices = self._known.get(node)
        if devices is None:
            devices = self._known[node] = NodeDevices()
        devices.remove(key)
        devices.add(key, now)
        self._discard_if_idle(node)
        self._tell(node)

    def _confirm(self, key: str) -> None:
        """An object shows where a pod is."""
        node = self._claims.node_of_reserved(key)
        if node is not None:
            self._claim(node, key, Source.RESERVED, _NOTHING)

    # --- events ----------------------------------------------------------------------------------

    def _pod_set(self, pod: Pod) -> None:
        node, key = pod.spec.node_name, pod.metadata.key
        if node:
            allocations = _NOTHING if pod.is_terminal else _allocations(pod.metadata.annotations, "Pod", key)
            self._claim(node, key, Source.POD, allocations)
            self._confirm(key)

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        if _says_the_same(old, pod):
            return
        if old.spec.node_name != pod.spec.node_name:
            self._pod_deleted(old)
        self._pod_set(pod)

    def _pod_deleted(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._claim(pod.spec.node_name, pod.metadata.key, Source.POD, _NOTHING)

    def _reservation_set(self, reservation: Reservation) -> None:
        name = reservation.metadata.name
        place = _place(reservation)
        known = self._reservation_places.get(name)
        if known is not None and known != place:
            del self._reservation_places[name]
            self._claim(*known, Source.RESERVATION, _NOTHING)
        if place is not None:
            template = reservation.spec.template or ReservationTemplate()
            annotations = template.metadata.annotations | reservation.metadata.annotations
            self._reservation_places[name] = place
            self._claim(*place, Source.RESERVATION, _allocations(annotations, "Reservation", name))
            self._confirm(place[1])

    def _reservation_deleted(self, reservation: Reservation) -> None:
        known = self._reservation_places.pop(reservation.metadata.name, None)
        if known is not None:
            self._claim(*known, Source.RESERVATION, _NOTHING)

    def _device_set(self, device: Device) -> None:
        name = device.metadata.name
        devices = self._known.get(name)
        if devices is None:
            devices = self._known[name] = NodeDevices()
        try:
            index = partitions.of_device(device.metadata.annotations)
        except ValueError as error:
            log.warning("Device %s: %s", name, error)
            index = None
        devices.set_device(_bounded(device), index)
        if device.metadata.labels.get(extension.LABEL_SECONDARY_DEVICE_WELL_PLANNED) == "false":
            NOT_WELL_PLANNED.labels(name).set(1)
        else:
            _forget_gauge(name)
        self._tell(name)

    def _device_deleted(self, device: Device) -> None:
        name = device.metadata.name
        _forget_gauge(name)
        devices = self._known.get(name)
        if devices is not None:
            devices.remove_device(_bounded(device))
            self._discard_if_idle(name)
            self._tell(name)

    def _node_deleted(self, node: Node) -> None:
        name = node.metadata.name
        if name in self._known:
            self._discard_if_idle(name)
            self._tell(name)

    def _discard_if_idle(self, name: str) -> None:
        """Forget a node that does not exist, and of which no object says anything."""
        is_known = name in self._nodes or name in self._devices or self._claims.any_on(name)
        if not is_known:
            del self._known[name]

    def _tell(self, name: str) -> None:
        if name in self._known:
            self._versions[name] = next(self._changes)
        else:
            self._versions.pop(name, None)
        for changed in self._on_change:
            changed(name)


def _says_the_same(old: Pod, pod: Pod) -> bool:
    key = extension.ANNOTATION_DEVICE_ALLOCATED
    return (
        old.spec.node_name == pod.spec.node_name
        and old.is_terminal == pod.is_terminal
        and old.metadata.annotations.get(key) == pod.metadata.annotations.get(key)
    )


def _place(reservation: Reservation) -> tuple[str, str] | None:
    """The node of an active, valid Reservation, and the key of its reserve pod."""
    if not reservation.is_active or validate(reservation):
        return None
    template = reservation.spec.template
    namespace = template.metadata.namespace if template is not None else ""
    return reservation.node_name, f"{namespace or DEFAULT_NAMESPACE}/{reservation.metadata.uid}"


def _allocations(annotations: Mapping[str, str], kind: str, name: str) -> DeviceAllocations:
    """What an object's annotation says; nothing if it cannot be read. Amounts below 0 count as 0."""
    try:
        allocations = device_allocations.of(annotations)
    except ValueError as error:
        log.warning("%s %s: %s", kind, name, error)
        return _NOTHING
    return {type_: tuple(map(_not_negative, devices)) for type_, devices in allocations.items() if devices}


def _not_negative(device: DeviceAllocation) -> DeviceAllocation:
    resources = device.resources
    if all(amount.sign >= 0 for amount in resources.values()):
        return device
    counted = {name: amount if amount.sign >= 0 else ZERO for name, amount in resources.items()}
    return replace(device, resources=counted)


def _bounded(device: Device) -> Device:
    """Return a Device, without any devices if it lists more than a machine has."""
    listed = device.spec.devices
    functions = sum(len(group.vfs) for info in listed for group in info.vf_groups)
    if len(listed) <= MOST_DEVICES and functions <= MOST_FUNCTIONS:
        return device
    log.error(
        "Device %s: lists %d devices, %d virtual functions, more than %d or %d: none of them is allocated",
        device.metadata.name,
        len(listed),
        functions,
        MOST_DEVICES,
        MOST_FUNCTIONS,
    )
    return msgspec.structs.replace(device, spec=Device.Spec(devices=[]))


def _forget_gauge(name: str) -> None:
    try:
        NOT_WELL_PLANNED.remove(name)
    except KeyError:
        return


def _usage_shown(devices: NodeDevices) -> dict[str, Any]:
    return {
        "used": devices.used,
        "allocations": devices.allocations,
        "functions": devices.vf_allocations,
    }


def _device_shown(devices: NodeDevices) -> dict[str, Any]:
    return {
        "total": {type_: minors for type_, minors in devices.total.items() if minors},
        "free": {type_: minors for type_, minors in devices.free.items() if minors},
        "infos": {type_: msgspec.to_builtins(infos) for type_, infos in devices.infos.items()},
        "numa": devices.numa,
        "partitions": devices.partitions,
        "honors": devices.honors_partitions,
        "topology": devices.gpu_topology,
        "planned": devices.is_secondary_well_planned,
    }
