"""The base of plugins of every kind: a name, arguments, feature gates and needs.

Each kind (admission handlers, scheduling plugins, controllers, ...) has its own base class below
`BasePlugin`, which adds the methods that a plugin implements and the handle that it is given. All of them are
found by `koordpy.api.catalogue` and constructed in the same way, as `PluginClass(args, handle)`.
"""

import inspect
import sys
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Self, TypeVar

from koordpy.lib.feature_gates import FeatureSpec

from . import config_model
from .config_model import ConfigError, ConfigModel
from .field_error import FieldError
from .needs import Needs

A = TypeVar("A", bound="PluginArgs")


class PluginArgs(ConfigModel):
    """The base of every plugin's arguments: fields with defaults, by their camelCase names in files."""

    def problems(self) -> Iterable[FieldError]:
        """Return errors in values of the right type; paths are relative to the arguments."""
        return ()


class NoArgs(PluginArgs):
    """The arguments of a plugin without arguments."""


class BasePlugin:
    """The base of the base classes of all kinds.

    A plugin that takes arguments annotates `args` with their type, a subclass of `PluginArgs`:

        class ZoneGuard(Plugin, Filter):
            name = "ZoneGuard"
            args: ZoneGuardArgs

    `feature` is the gate that enables the plugin, None for a plugin without one. `feature_gates` are the
    gates that the plugin declares: its `feature`, unless koordpy already has it, and others that it reads.
    `needs` declares requirements that cannot be detected otherwise.
    """

    name: ClassVar[str]
    """The name in configuration files, and of the entry point."""
    args: PluginArgs
    args_type: ClassVar[type[PluginArgs]] = PluginArgs
    """The type of the arguments, which follows from the annotation of `args`."""
    args_api_version: ClassVar[str] = ""
    """The apiVersion that arguments of this kind of plugin may carry, with kind NAMEArgs; empty for none."""
    feature: ClassVar[str | None] = None
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {}
    needs: ClassVar[Needs] = Needs()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "args_type" in cls.__dict__:
            raise TypeError(
                f"{cls.__qualname__}: args_type cannot be set; annotate args with the type instead"
            )
        cls.args_type = _annotated_type(cls)

    def __init__(self, args: PluginArgs, handle: object) -> None:
        self.args = args
        self.handle = handle

    @classmethod
    def identity(cls) -> str:
        """Return the name of the plugin's entry point."""
        return cls.name

    @classmethod
    def read_args(cls, document: object, path: str) -> PluginArgs:
        """Return the plugin's arguments, with defaults; None means an empty document.

        Raises ConfigError with every wrong field as `PATH.FIELD: got VALUE, expected ...`.
        """
        kind = f"{cls.identity()}Args" if cls.args_api_version else ""
        return read_args(cls.args_type, document, path, api_version=cls.args_api_version, kind=kind)

    @classmethod
    def make(cls, handle: object, document: object = None, path: str = "args") -> Self:
        """Return a new plugin with the arguments of a document. Raises ConfigError."""
        return cls(cls.read_args(document, path), handle)


def read_args(args_type: type[A], document: object, path: str, *, api_version: str = "", kind: str = "") -> A:
    """Read and validate arguments of a type. Raises ConfigError with every wrong field."""
    given = {} if document is None else document
    if api_version:
        args = config_model.read_args(args_type, given, path, api_version=api_version, kind=kind)
    else:
        args = config_model.read(args_type, given, path)
    if problems := [problem.under(path) for problem in args.problems()]:
        raise ConfigError(*problems)
    return args


def _annotated_type(cls: type[BasePlugin]) -> type[PluginArgs]:
    """Return the annotation of `args` in a class or its nearest base class.

    It must be a subclass of the annotation in the base classes: a kind may have its own base.
    """
    expected = next(vars(base)["args_type"] for base in cls.__mro__[1:] if "args_type" in vars(base))
    for base in cls.__mro__:
        annotation = inspect.get_annotations(base).get("args")
        if annotation is None:
            continue
        if isinstance(annotation, str):  # from __future__ import annotations
            try:
                annotation = eval(annotation, vars(sys.modules[base.__module__]), dict(vars(base)))
            except NameError as error:
                raise TypeError(
                    f"{base.__qualname__}: args: {annotation}: {error}; expected a type that is imported "
                    "when the class is defined"
                ) from None
        if isinstance(annotation, type) and issubclass(annotation, expected):
            return annotation
        raise TypeError(
            f"{base.__qualname__}: args: got {annotation!r}, expected a subclass of "
            f"{expected.__module__}.{expected.__qualname__}"
        )
    raise AssertionError("BasePlugin annotates args")
