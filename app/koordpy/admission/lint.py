"""What is wrong with the objects that say what admission does: found before any pod meets them.

The plugin that gives an object its meaning also knows how it goes wrong, so a linter is a plugin: a class
named by an entry point of group `koordpy.lint`, whose name is the kind of its objects.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final

from pydantic import BaseModel

from koordpy.api.catalogue import Catalogue
from koordpy.api.plugin import BasePlugin, PluginArgs
from koordpy.cluster.cluster import Cluster
from koordpy.lib.feature_gates import FeatureGates

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


@dataclass(frozen=True)
class LintHandle:
    """What linters may use: the cluster as far as it is known, and the gates of admission.

    Where `complete`, all of the cluster is known: only then something that is not in it does not exist.
    """

    cluster: Cluster
    gates: FeatureGates
    complete: bool


class Linter(BasePlugin, ABC):
    """Finds what is wrong with the objects of one kind; its entry point has the name of the kind."""

    kind: ClassVar[str]
    handle: LintHandle

    def __init__(self, args: PluginArgs, handle: LintHandle) -> None:
        super().__init__(args, handle)

    @classmethod
    def identity(cls) -> str:
        """Return the kind."""
        return cls.kind

    @abstractmethod
    def lint(self, documents: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
        """Yield what is wrong with these objects, which are all that there are of the kind.

        They come as they are written: nothing was checked, except that each is an object of the kind.
        """


def installed() -> Catalogue[Linter]:
    """Return the installed linters by the kinds of their objects. Raises DuplicateName."""
    return Catalogue(GROUP, Linter)  # type: ignore[type-abstract]


def make(kind: str, handle: LintHandle) -> Linter:
    """Return the linter of a kind, with its default arguments. Raises PluginError where there is none."""
    catalogue = installed()
    return catalogue.make(kind, catalogue[kind].read_args(None, "args"), handle)


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, the worst first, then by the names of their objects."""
    return sorted(findings, key=lambda found: (ORDER.index(found.severity), found.name, found.field))
