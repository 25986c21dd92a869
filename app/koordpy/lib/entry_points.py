"""Find installed plugins: Python entry points are the only registry there is."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points


class PluginLoadError(Exception):
    """An entry point names something that cannot be imported, or two packages claim one name."""


def find(group: str) -> dict[str, EntryPoint]:
    """Return the installed entry points of a group by name, without importing anything.

    Raises PluginLoadError when two different objects are installed under one name.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        known = found.get(point.name)
        if known is not None and known.value != point.value:
            raise PluginLoadError(
                f"entry point group {group!r}: {point.name!r} is claimed by both {known.value!r} "
                f"({_origin(known)}) and {point.value!r} ({_origin(point)}); uninstall one of them"
            )
        found[point.name] = point
    return dict(sorted(found.items()))


def load(group: str, name: str, points: Mapping[str, EntryPoint] | None = None) -> object:
    """Import one plugin by its name. Raises PluginLoadError naming what is installed instead."""
    points = find(group) if points is None else points
    point = points.get(name)
    if point is None:
        installed = ", ".join(points) or "none"
        raise PluginLoadError(f"no plugin {name!r} in entry point group {group!r}; installed: {installed}")
    try:
        return point.load()
    except Exception as error:  # whatever a third party's import raises, the operator needs its name
        raise PluginLoadError(
            f"plugin {name!r} ({_origin(point)}) failed to import {point.value!r}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist is not None else "unknown distribution"
