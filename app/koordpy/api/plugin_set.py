"""Which plugins are enabled: the defaults, and those that a configuration adds and removes.

Source: Kubernetes, `pkg/scheduler/apis/config/v1/default_plugins.go` (`mergePluginSet`); Koordinator's
descheduler has the same rule.
"""

from collections.abc import Collection, Sequence
from typing import Final, Protocol, TypeVar

ALL: Final = "*"
"""As a disabled name: every default."""


class Named(Protocol):
    """An entry of a list of plugins."""

    @property
    def name(self) -> str:
        """The plugin's name."""
        ...


E = TypeVar("E", bound=Named)


def merge(defaults: Sequence[E], enabled: Sequence[E], disabled: Collection[str]) -> list[E]:
    """Return the defaults that are not disabled, in order, then the other enabled entries in order.

    A default that is also enabled explicitly keeps its place, with the explicit entry: the last one, if there
    are several. The others stay in the list, where they are duplicates. `disabled` affects only defaults.
    """
    last = {entry.name: index for index, entry in enumerate(enabled)}
    kept = [] if ALL in disabled else [entry for entry in defaults if entry.name not in disabled]
    used = {last[entry.name] for entry in kept if entry.name in last}
    merged = [enabled[last[entry.name]] if entry.name in last else entry for entry in kept]
    return [*merged, *(entry for index, entry in enumerate(enabled) if index not in used)]
