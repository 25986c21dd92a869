"""Which descheduling plugins are installed. They are imported when a configuration names them, not before."""

from collections.abc import Callable, Iterable
from functools import partial

from koordpy.lib import entry_points

from .interface import PluginFactory

GROUP = "koordpy.descheduling"


class RegistryError(LookupError):
    """A plugin is registered twice, or is not registered."""


class Registry:
    """Plugin factories by name."""

    def __init__(self, factories: Iterable[PluginFactory] = ()) -> None:
        self._loaders: dict[str, Callable[[], object]] = {}
        for factory in factories:
            self.register(factory)

    @classmethod
    def installed(cls) -> "Registry":
        """Return the plugins of all installed packages."""
        registry = cls()
        points = entry_points.find(GROUP)
        for name in points:
            registry._add(name, partial(entry_points.load, GROUP, name, points))
        return registry

    def register(self, factory: PluginFactory) -> None:
        """Add a plugin; raise RegistryError if its name is taken."""
        self._add(factory.name, lambda: factory)

    def unregister(self, name: str) -> None:
        """Take a plugin out; raise RegistryError if there is none of that name."""
        if name not in self._loaders:
            raise RegistryError(f"no plugin named {name} exists")
        del self._loaders[name]

    def merge(self, other: "Registry") -> None:
        """Add all plugins of another registry; raise RegistryError if a name is taken."""
        for name, load in other._loaders.items():
            self._add(name, load)

    def get(self, name: str) -> PluginFactory | None:
        """Return a plugin's factory, None if it is not installed.

        Raises PluginLoadError if it cannot be imported, RegistryError if what is installed under the name is
        no plugin of that name.
        """
        load = self._loaders.get(name)
        if load is None:
            return None
        found = load()
        if not isinstance(found, PluginFactory) or found.name != name:
            raise RegistryError(
                f"entry point {name!r} of group {GROUP!r} is {found!r}: expected a plugin class with "
                f"name = {name!r} and args_type"
            )
        return found

    def __contains__(self, name: str) -> bool:
        return name in self._loaders

    @property
    def names(self) -> list[str]:
        """The names of all plugins, sorted."""
        return sorted(self._loaders)

    def _add(self, name: str, load: Callable[[], object]) -> None:
        if name in self._loaders:
            raise RegistryError(f"a plugin named {name} already exists")
        self._loaders[name] = load
