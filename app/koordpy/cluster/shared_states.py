"""The derived states of a cluster: each is created on the first request and shared by all later ones."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from .derived_state import DerivedState

if TYPE_CHECKING:
    from .cluster import Cluster

S = TypeVar("S", bound=DerivedState)


class ConflictingParameters(ValueError):
    """A state that a cluster has only once was requested with other parameters than it was created with."""


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """A state, and how to create it for another cluster."""

    type: Callable[..., DerivedState]
    parameters: tuple[Any, ...]
    named: Mapping[str, Any]
    state: DerivedState

    def on(self, cluster: "Cluster") -> DerivedState:
        """Return a new state of this type and parameters for another cluster."""
        return cluster.shared(self.type, *self.parameters, **self.named)

    def __str__(self) -> str:
        return _call(self.type, self.parameters, self.named)


class SharedStates:
    """The states of one cluster, in the order of their dependencies."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._by_type: dict[Callable[..., DerivedState], list[Shared]] = {}
        self._made: list[Shared] = []
        self._under_way: dict[Callable[..., DerivedState], list[DerivedState]] = {}
        self._is_closed = False

    def __iter__(self) -> Iterator[Shared]:
        return iter(tuple(self._made))

    def __len__(self) -> int:
        return len(self._made)

    def get(self, type_: Callable[..., S], parameters: tuple[Any, ...], named: Mapping[str, Any]) -> S:
        """Return the state with equal parameters, creating it on the first request.

        Raises ConflictingParameters, RuntimeError (a state that needs itself, a cluster that is closed), and
        what the state's constructor raises.
        """
        known = self._by_type.get(type_)
        if known is not None:
            for shared in known:
                if shared.parameters == parameters and shared.named == named:
                    return shared.state  # type: ignore[return-value]
        return self._make(type_, parameters, named)

    def _make(self, type_: Callable[..., S], parameters: tuple[Any, ...], named: Mapping[str, Any]) -> S:
        what = _call(type_, parameters, named)
        if self._is_closed:
            raise RuntimeError(f"{what} cannot be created: the cluster is closed")
        if type_ in self._under_way:
            names = " needs ".join(map(_name, (*self._under_way, type_)))
            raise RuntimeError(f"{what} cannot be created: {names}")
        known = self._by_type.get(type_, [])
        if known and known[0].state.one_per_cluster:
            raise ConflictingParameters(
                f"{what} cannot be created: all of a cluster share one, which is {known[0]}"
            )
        begun = self._under_way[type_] = []
        try:
            state = type_(self._cluster, *parameters, **named)
        except BaseException:
            for unfinished in begun:
                unfinished.close()
            raise
        finally:
            del self._under_way[type_]
        shared = Shared(type_, parameters, named, state)
        self._by_type.setdefault(type_, []).append(shared)
        self._made.append(shared)
        return state

    def begun(self, state: DerivedState) -> None:
        """Register a state whose constructor has started: if it fails, its subscriptions are closed."""
        begun = self._under_way.get(type(state))
        if begun is not None:
            begun.append(state)

    def refresh_some(self, at_most: int) -> bool:
        """Do a part of what the states put off, one after the other; return whether anything is left."""
        return any(shared.state.refresh_some(at_most) for shared in self._made)

    def close(self) -> None:
        """Close all states, dependent ones first. No state is created afterwards."""
        self._is_closed = True
        while self._made:
            self._made.pop().state.close()
        self._by_type.clear()


def _call(type_: Callable[..., Any], parameters: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """Return the constructor call of a state as Python source."""
    shown = [*map(repr, parameters), *(f"{name}={value!r}" for name, value in named.items())]
    return f"{_name(type_)}({', '.join(shown)})" if shown else _name(type_)


def _name(type_: Callable[..., Any]) -> str:
    return getattr(type_, "__qualname__", repr(type_))
