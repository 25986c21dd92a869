"""The cgroups of pods and containers that a collector measures, worked out when pods change."""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from koordpy.agent.interface.handle import Handle
from koordpy.agent.interface.layout import CgroupLayout
from koordpy.agent.interface.states import CallbackTarget, PodMeta, StateType
from koordpy.agent.toolkit.pod_filter import PodFilter, every_pod

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Group:
    """The cgroup of a pod, or of a container if `container_id` is set."""

    directory: str
    """Relative to the root of a subsystem."""
    namespace: str
    pod_name: str
    pod_uid: str
    container_id: str = ""
    """With the runtime: `containerd://ID`."""
    container_name: str = ""

    @property
    def level(self) -> str:
        """`pod` or `container`: how the kinds of its series begin."""
        return "container" if self.container_id else "pod"

    @property
    def properties(self) -> dict[str, str]:
        """The properties of most of its series."""
        return {"container_id": self.container_id} if self.container_id else {"pod_uid": self.pod_uid}


class Closable(Protocol):
    """What a collector keeps for one group."""

    def close(self) -> None:
        """Release files; the group is gone."""
        ...


T = TypeVar("T", bound=Closable)


def groups(pods: Iterable[PodMeta], layout: CgroupLayout, pod_filter: PodFilter) -> Iterator[Group]:
    """Yield each pod, followed by its containers that have an id."""
    for meta in pods:
        if not pod_filter(meta):
            continue
        pod, directory = meta.pod, meta.cgroup_dir
        namespace, name, uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
        yield Group(directory, namespace, name, uid)
        for status in pod.status.container_statuses:
            if not status.container_id:
                continue
            try:
                path = layout.container(directory, status.container_id)
            except ValueError as error:
                where = f"{status.name} of pod {namespace}/{name}"
                log.warning("container %s is not measured: %s", where, error)
                continue
            yield Group(path, namespace, name, uid, status.container_id, status.name)


class PodGroups(Generic[T]):
    """What a collector keeps for each pod and container: made when one appears, closed when it goes.

    It follows the node's pods by a callback with the collector's name; `items` has pods before their
    containers.
    """

    def __init__(
        self, handle: Handle, collector: str, make: Callable[[Group], T], pod_filter: PodFilter = every_pod
    ) -> None:
        self._handle, self._make, self._filter = handle, make, pod_filter
        self._kept: dict[Group, T] | None = None
        self.items: list[T] = []
        handle.states.register_callbacks(
            StateType.ALL_PODS, collector, f"measures pods: {collector}", self._pods_changed
        )

    def current(self) -> list[T]:
        """Return what is kept, pods before their containers."""
        if self._kept is None:
            self.update(self._handle.states.pods())
        return self.items

    def update(self, pods: Iterable[PodMeta]) -> None:
        """Make what is new, keep what is known, close what is gone."""
        before = self._kept or {}
        kept: dict[Group, T] = {}
        for group in groups(pods, self._handle.layout, self._filter):
            kept[group] = before.pop(group, None) or self._make(group)
        for gone in before.values():
            gone.close()
        self._kept = kept
        self.items = list(kept.values())

    def _pods_changed(self, type_: StateType, state: Any, target: CallbackTarget) -> None:
        if self._kept is not None:
            self.update(target.pods)
