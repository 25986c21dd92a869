"""The installed plugins of one kind: found, imported, checked and constructed in one way for all kinds.

Entry points are the only registry. A plugin is imported on first use, so a broken package matters only if its
plugin is used.
"""

import inspect
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import EntryPoint
from typing import Generic, Self, TypeVar

from koordpy.lib.entry_points import entry_points
from koordpy.lib.feature_gates import FeatureSpec
from koordpy.lib.nearest import suggestion

from .config_model import ConfigError
from .field_error import FieldError, shown
from .plugin import BasePlugin, PluginArgs
from .plugin_errors import (
    DuplicateName,
    GateConflict,
    ImportFailed,
    NameMismatch,
    NotAPlugin,
    NotInstalled,
    NotMade,
    PluginError,
)

log = logging.getLogger(__name__)

T = TypeVar("T", bound=BasePlugin)


class Catalogue(Mapping[str, type[T]], Generic[T]):
    """Plugin classes by name: those of an entry point group, which must be subclasses of `base`.

    Creating a catalogue imports nothing; loading a name imports that plugin. Raises DuplicateName.
    """

    def __init__(self, group: str, base: type[T], points: Iterable[EntryPoint] | None = None) -> None:
        self.group = group
        self.base = base
        self._points: dict[str, EntryPoint] = {}
        self._types: dict[str, type[T]] = {}
        for point in entry_points(group) if points is None else points:
            self._add(point)

    @classmethod
    def of(cls, group: str, base: type[T], types: Iterable[type[T]] = ()) -> Self:
        """Return a catalogue of only these classes, ignoring installed ones. Raises DuplicateName."""
        return cls(group, base, ()).including(*types)

    def including(self, *types: type[T]) -> Self:
        """Return a catalogue with further classes. Raises DuplicateName."""
        made = type(self)(self.group, self.base, self._points.values())
        made._types.update(self._types)
        for type_ in types:
            name = type_.identity()
            if name in made:
                raise DuplicateName(f"{made._entry(name)}: also the name of {_path(type_)}")
            made._types[name] = type_
        return made

    # --- finding ---------------------------------------------------------------------------------

    def load(self, name: str, path: str = "") -> type[T]:
        """Return a plugin class; `path` is where a configuration names it.

        Raises NotInstalled, ImportFailed, NotAPlugin or NameMismatch.
        """
        found = self._types.get(name)
        if found is None:
            try:
                found = self._types[name] = self._import(name)
            except PluginError as error:
                raise type(error)(
                    *(FieldError(path, problem) for problem in error.problems)
                ) from error.__cause__
        return found

    def __getitem__(self, name: str) -> type[T]:
        return self.load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._points.keys() | self._types.keys()))

    def __len__(self) -> int:
        return len(self._points.keys() | self._types.keys())

    def __contains__(self, name: object) -> bool:
        return name in self._points or name in self._types

    def missing(self, name: str) -> str:
        """Return the message for a name that is not installed, with the nearest installed name."""
        hint = (
            suggestion(name, self, "`koordpy version` lists the installed ones")
            if self
            else "none is installed"
        )
        return f"got {shown(name)}, expected an installed plugin of entry point group {self.group}; {hint}"

    # --- making ----------------------------------------------------------------------------------

    def make(self, name: str, args: PluginArgs, handle: object, path: str = "") -> T:
        """Return a new plugin. Raises NotMade if its constructor raises, and what `load` raises."""
        make: Callable[[PluginArgs, object], T] = self.load(name, path)
        try:
            return make(args, handle)
        except ConfigError as error:
            problems: Iterable[object] = error.problems
            cause: Exception = error
        except ValueError as error:
            problems, cause = (error,), error
        except Exception as error:  # a third party's constructor may raise anything; its name helps
            problems, cause = (f"{type(error).__name__}: {error}",), error
        raise NotMade(
            *(FieldError(path, f"{self._entry(name)} cannot be created: {problem}") for problem in problems)
        ) from cause

    # --- feature gates ---------------------------------------------------------------------------

    def feature_gates(
        self, known: Mapping[str, FeatureSpec], *, skip_broken: bool = False
    ) -> dict[str, FeatureSpec]:
        """Return the `known` gates and those that the plugins declare.

        Imports every plugin; with `skip_broken`, one that cannot be imported is logged and has no gates.
        Raises GateConflict for a gate that is declared twice or needed and not declared.
        """
        gates = dict(known)
        loaded: dict[str, type[T]] = {}
        for name in self:
            try:
                loaded[name] = self.load(name)
            except PluginError as error:
                if not skip_broken:
                    raise
                log.warning("%s", error)
                continue
            for gate, spec in loaded[name].feature_gates.items():
                if gate in gates:
                    raise GateConflict(
                        f"{self._entry(name)}: feature gate {shown(gate)} is declared already, by koordpy or "
                        "another plugin"
                    )
                gates[gate] = spec
        for name, type_ in loaded.items():
            if type_.feature is not None and type_.feature not in gates:
                raise GateConflict(
                    f"{self._entry(name)}: feature gate {shown(type_.feature)} is not known; expected it in "
                    f"feature_gates of {_path(type_)}"
                )
        return gates

    # ---------------------------------------------------------------------------------------------

    def _add(self, point: EntryPoint) -> None:
        known = self._points.get(point.name)
        if known is not None and known.value != point.value:
            raise DuplicateName(
                f"entry point {shown(point.name)} of group {self.group} is installed by {_origin(known)} and "
                f"by {_origin(point)}; uninstall one of them"
            )
        self._points[point.name] = point

    def _import(self, name: str) -> type[T]:
        point = self._points.get(name)
        if point is None:
            raise NotInstalled(self.missing(name))
        try:
            loaded: object = point.load()
        except (Exception, SystemExit) as error:  # an import may raise anything
            told = f"{self._entry(name)} cannot be imported: {type(error).__name__}: {error}"
            raise ImportFailed(told) from error
        if not isinstance(loaded, type) or not issubclass(loaded, self.base):
            raise NotAPlugin(
                f"{self._entry(name)}: got {loaded!r}, expected a subclass of {_path(self.base)}"
            )
        if inspect.isabstract(loaded):
            lacking = ", ".join(sorted(getattr(loaded, "__abstractmethods__", ())))
            raise NotAPlugin(
                f"{self._entry(name)}: {_path(loaded)} is abstract: it does not define {lacking}"
            )
        identity = _identity(loaded)
        if identity != name:
            raise NameMismatch(
                f"{self._entry(name)}: got a class with the name {shown(identity)}, expected {shown(name)}"
            )
        return loaded

    def _entry(self, name: str) -> str:
        """Return what messages call a plugin; reads the metadata of its distribution, which takes a while."""
        point = self._points.get(name)
        origin = _origin(point) if point is not None else _path(self._types[name])
        return f"plugin {shown(name)} of group {self.group} ({origin})"


def _identity(type_: type[BasePlugin]) -> str | None:
    try:
        return type_.identity()
    except AttributeError:  # the class sets no name
        return None


def _origin(point: EntryPoint) -> str:
    distribution = f"{point.dist.name} {point.dist.version}" if point.dist is not None else "no distribution"
    return f"{distribution}: {point.value}"


def _path(type_: type) -> str:
    return f"{type_.__module__}.{type_.__qualname__}"
