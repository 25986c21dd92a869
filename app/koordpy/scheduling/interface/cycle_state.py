"""What plugins store between the extension points of one scheduling attempt.

A state is created when an attempt starts and discarded when it ends; it is never reused.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar, cast

from koordpy.api.core import Pod

T = TypeVar("T")


class StateKey(Generic[T]):
    """A name under which one type of value is kept. Names are Koordinator's where it has one."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


class CycleState:
    """Values by key, and which plugins skip their Filter and Score in this attempt."""

    __slots__ = ("_values", "measured", "skip_filter", "skip_score")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self.measured = False
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()

    def read(self, key: StateKey[T]) -> T | None:
        """Return the value stored under a key, None if there is none."""
        return cast("T | None", self._values.get(key.name))

    def write(self, key: StateKey[T], value: T) -> None:
        """Keep a value under a key."""
        self._values[key.name] = value

    def delete(self, key: StateKey[Any]) -> None:
        """Forget a key; unknown keys are no error."""
        self._values.pop(key.name, None)

    def clone(self) -> "CycleState":
        """Return a state for a what-if: values with a `clone` method are cloned, others are shared."""
        copy = CycleState()
        for name, value in self._values.items():
            clone = getattr(value, "clone", None)
            if value is self:  # a state that was filtered and scored at once
                copy._values[name] = copy
            else:
                copy._values[name] = value if clone is None else clone()
        copy.measured = self.measured
        copy.skip_filter = set(self.skip_filter)
        copy.skip_score = set(self.skip_score)
        return copy


SCHEDULING_PHASE: StateKey[str] = StateKey("scheduling.koordinator.sh/scheduling-phase")
"""`PostFilter` or `Reserve` while these run, else absent."""

NOMINATED_PODS_TO_IGNORE: StateKey[frozenset[str]] = StateKey(
    "scheduling.koordinator.sh/nominated-pods-to-ignore"
)
"""UIDs of pods of the same job: their nominations do not count against this pod."""

PLACED: StateKey[Mapping[str, Sequence[Pod]]] = StateKey("koordpy.dev/placed")
"""In a what-if: the pods that it has placed so far, by node name.

The nodes that plugins see have these pods on them. A plugin with its own per-pod state finds here the pods
that it does not have.
"""

SCORED: StateKey[CycleState] = StateKey("koordpy.dev/scored")
"""In Reserve of a pod that kube-scheduler binds: the state in which its nodes were scored.

If the node has changed since, filters have passed again in the current state, which only knows that node. A
plugin finds here what the choice of the node was based on.
"""
