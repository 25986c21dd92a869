"""What is wrong with the objects that say what admission does: found before any pod meets them.

Whoever defines what an object means also knows how it goes wrong, so a linter is a plugin: a class named by
an entry point of group `koordpy.lint`, whose name is the kind that it looks at.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Final

from pydantic import BaseModel

from koordpy.api.config_model import ConfigError
from koordpy.lib import entry_points

from .handler import Handle

GROUP: Final = "koordpy.lint"


class Severity(StrEnum):
    """How bad a finding is.

    ERROR: something does not work, or pods are refused because of it. WARNING: it does something that is
    probably not meant, or breaks some pods. NOTE: it is as written, and worth knowing.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


ORDER: Final = tuple(Severity)
"""Severities, the worst first."""


class Finding(BaseModel):
    """One thing about one object: `field` has `value`, and `expectation` says what is wrong with that.

    `rule` names the kind of finding. `field` is a path such as `spec.labels[app]`, `value` null where it is
    about something that is not there.
    """

    severity: Severity
    rule: str
    kind: str
    name: str
    field: str
    value: Any = None
    expectation: str


class Linter(ABC):
    """Looks for what is wrong with the objects of one kind.

    `handle` has the cluster as far as it is known; it is all of it where `complete`, so that only then
    something that is not in it does not exist.
    """

    kind: ClassVar[str]

    def __init__(self, handle: Handle, *, complete: bool) -> None:
        self.handle = handle
        self.complete = complete

    @abstractmethod
    def lint(self, documents: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
        """Yield what is wrong with these objects, which are all that there are of the kind.

        They come as they are written: nothing was checked, except that each is an object of the kind.
        """


def installed(kind: str) -> type[Linter]:
    """Return the linter of a kind. Raises PluginLoadError where there is none, ConfigError if it is unfit."""
    loaded = entry_points.load(GROUP, kind)
    if not isinstance(loaded, type) or not issubclass(loaded, Linter) or loaded.kind != kind:
        raise ConfigError(f"linter {kind!r}: its entry point is {loaded!r}, expected a Linter of that kind")
    return loaded


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, the worst first, then by the names of their objects."""
    return sorted(findings, key=lambda found: (ORDER.index(found.severity), found.name, found.field))
