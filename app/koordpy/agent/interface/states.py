"""The states of a node, as plugins see them (koordlet's states informer)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.slo.host_application import HostApplicationSpec
from koordpy.api.slo.node_slo import NodeSLOSpec


class StateType(StrEnum):
    """The state that a callback is registered for."""

    NODE_SLO_SPEC = "NodeSLOSpec"
    ALL_PODS = "AllPods"
    NODE_TOPOLOGY = "NodeTopology"
    NODE_METADATA = "NodeMetadata"


@dataclass(frozen=True)
class PodMeta:
    """A pod of this node and its cgroup directory, relative to a subsystem's root."""

    pod: Pod
    cgroup_dir: str
    container_task_ids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The tasks of its containers and its sandbox by container id; only with --enable-pod-taskids."""


@dataclass(frozen=True)
class CallbackTarget:
    """What all callbacks of one run share."""

    pods: list[PodMeta]
    host_applications: list[HostApplicationSpec]


Callback = Callable[[StateType, Any, CallbackTarget], None]


class CallbackError(ValueError):
    """A callback was registered for an unknown type, or twice under one name."""


class CallbackScope:
    """The states of a node as one plugin sees them: `close` unregisters the callbacks that it registered."""

    def __init__(self, states: "States") -> None:
        self._states = states
        self._registered: list[tuple[StateType, str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._states, name)

    def register_callbacks(self, type_: StateType, name: str, description: str, callback: Callback) -> None:
        """Register a callback, and remember it."""
        self._states.register_callbacks(type_, name, description, callback)
        self._registered.append((type_, name))

    def close(self) -> None:
        """Unregister all callbacks."""
        for type_, name in self._registered:
            self._states.unregister_callbacks(type_, name)
        self._registered.clear()


class States(Protocol):
    """The states of one node. All reads return the latest known state."""

    @property
    def node_name(self) -> str:
        """The name of the node."""
        ...

    def node(self) -> Node | None:
        """Return the Node object; None only before the states are known."""
        ...

    def node_slo(self) -> NodeSLOSpec | None:
        """Return the spec of the node's NodeSLO with all defaults; None means that every strategy is idle."""
        ...

    def topology(self) -> NodeResourceTopology | None:
        """Return the node's NodeResourceTopology."""
        ...

    def pods(self) -> list[PodMeta]:
        """Return all pods that are bound to the node, in no particular order."""
        ...

    def register_callbacks(self, type_: StateType, name: str, description: str, callback: Callback) -> None:
        """Call `callback(type, state, target)` after each change of a state.

        Changes in quick succession may be one call, with the latest state. Raises CallbackError for a name
        that the type already has.
        """
        ...

    def unregister_callbacks(self, type_: StateType, name: str) -> None:
        """Forget a callback; nothing happens if there is none of this name."""
        ...
