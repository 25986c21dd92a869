"""Keeps equal parts of objects once.

The pods of a workload differ in little: containers, tolerations, labels and owners are the same for all of
them, and most short strings occur a hundred thousand times. Objects of a store are never changed, so equal
parts can be one object: a cached pod then takes a third of the memory.
"""

from collections.abc import Callable
from copy import copy
from typing import Any, TypeVar

import msgspec

from koordpy.api.core import Pod, PodSpec, PodStatus
from koordpy.api.meta import KubeObject, ObjectMeta
from koordpy.lib.bounded_cache import BoundedCache, text_size

T = TypeVar("T", bound=KubeObject)

PART_BYTES = 32 << 20
"""The budget of remembered parts. Those that are forgotten stay with the objects that have them; later equal
ones are shared anew."""

LARGEST_PART = 256 << 10
"""Larger parts are not shared: few pods have them, and measuring each would hold up everything else."""

TEXT_BYTES = 8 << 20

_encode = msgspec.msgpack.Encoder().encode


class Sharing:
    """Replaces parts of freshly decoded objects by equal ones that were seen before."""

    def __init__(self, *, part_bytes: int = PART_BYTES, text_bytes: int = TEXT_BYTES) -> None:
        self._text = BoundedCache[str | None, Any]("shared_texts", text_bytes, _itself, text_size).get
        self._parts = BoundedCache[tuple[str, bytes], Any](
            "shared_parts", part_bytes, _itself, largest=LARGEST_PART
        )

    def of(self, type_: type[T]) -> Callable[[T], None]:
        """Return a function that shares the parts of an object of a type, in place."""
        return self._share_pod if type_ is Pod else self._share_object  # type: ignore[return-value]

    def _share_object(self, obj: KubeObject) -> None:
        text = self._text
        meta = obj.metadata
        meta.generate_name = text(meta.generate_name)
        meta.creation_timestamp = text(meta.creation_timestamp)
        if meta.annotations:
            meta.annotations = {text(key): value for key, value in meta.annotations.items()}
        _share_empty(meta, _METADATA_LISTS)
        belonging = meta.namespace, meta.labels, meta.owner_references
        key = "belonging", _encode(belonging)
        shared = self._parts.known(key)
        if shared is None:
            meta.namespace = text(meta.namespace)
            self._share_parts(meta, _METADATA)
            self._parts.setdefault(key, (meta.namespace, meta.labels, meta.owner_references))
        else:
            meta.namespace, meta.labels, meta.owner_references = shared

    def _share_pod(self, pod: Pod) -> None:
        self._share_object(pod)
        text = self._text
        pod.spec = self._shared_spec(pod.spec)
        status = pod.status
        status.phase = text(status.phase)
        status.qos_class = text(status.qos_class)
        status.start_time = text(status.start_time)
        _share_empty(status, _POD_STATUS_LISTS)
        conditions, seen = status.conditions, self._parts.setdefault
        for i, condition in enumerate(conditions):
            conditions[i] = seen(("conditions", _encode(condition)), condition)
        for container in status.container_statuses:
            container.name = text(container.name)
            if container.resources is not None or container.allocated_resources:
                self._share_parts(container, _CONTAINER_STATUS)

    def _shared_spec(self, spec: PodSpec) -> PodSpec:
        """Return an equal spec: a copy of the workload's, except for the node and the volumes' names."""
        node, volumes = spec.node_name, spec.volumes
        spec.node_name, spec.volumes = "", _EMPTY
        key = "spec", _encode(spec)
        shared = self._parts.known(key)
        if shared is None:
            self._share_parts(spec, _POD_SPEC)
            _share_empty(spec, _POD_SPEC_LISTS)
            shared = self._parts.setdefault(key, spec)
        own: PodSpec = copy(shared)
        own.node_name = self._text(node)
        if volumes:
            own.volumes = volumes
        return own

    def _share_parts(self, obj: Any, fields: tuple[str, ...]) -> None:
        """Share fields one by one among all objects with an equal value."""
        for field in fields:
            value = getattr(obj, field)
            setattr(obj, field, self._parts.setdefault((field, _encode(value)), value))


def _itself(value: Any) -> Any:
    return value


def _share_empty(obj: Any, fields: tuple[str, ...]) -> None:
    """Otherwise every empty list would be a separate object for the garbage collector to visit."""
    for field in fields:
        if not getattr(obj, field):
            setattr(obj, field, _EMPTY)


_EMPTY: list[Any] = []


def _lists_of(type_: type[msgspec.Struct], but: tuple[str, ...] = ()) -> tuple[str, ...]:
    names = (field.name for field in msgspec.structs.fields(type_) if field.default_factory is list)
    return tuple(name for name in names if name not in but)


_METADATA = ("labels", "owner_references")
_POD_SPEC = (
    "scheduler_name",
    "restart_policy",
    "priority_class_name",
    "preemption_policy",
    "containers",
    "init_containers",
    "tolerations",
    "affinity",
    "node_selector",
    "topology_spread_constraints",
)
_CONTAINER_STATUS = ("resources", "allocated_resources")
_METADATA_LISTS = _lists_of(ObjectMeta, _METADATA)
_POD_SPEC_LISTS = _lists_of(PodSpec, _POD_SPEC)
_POD_STATUS_LISTS = _lists_of(PodStatus)
