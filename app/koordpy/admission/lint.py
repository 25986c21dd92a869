"""Checks of the objects that configure admission, before they affect pods.

A linter is a plugin, because the plugin that interprets an object knows its errors: a class that an entry
point of group `koordpy.lint` names; the entry point's name is the kind of the objects.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Final

from koordpy.api.catalogue import Catalogue
from koordpy.api.output_model import OutputModel
from koordpy.api.plugin import BasePlugin, PluginArgs
from koordpy.cluster.cluster import Cluster
from koordpy.lib.feature_gates import FeatureGates

GROUP: Final = "koordpy.lint"


class Severity(StrEnum):
    """The severity of a finding.

    ERROR: something does not work, or pods are refused because of it. WARNING: its effect is
    probably not intended, or it breaks some pods. NOTE: it works as written, and is worth knowing.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


ORDER: Final = tuple(Severity)
"""Severities, the worst first."""


class Finding(OutputModel):
    """A finding on one object: `field` has `value`, and `expectation` explains what is wrong with it.

    `rule` names the kind of finding. `field` is a path such as `spec.labels[app]`; `value` is null where the
    field is absent.
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
    """What linters may use: the known objects of the cluster, and the gates of admission.

    `complete`: all objects of the cluster are known, so an object that is not found does not exist.
    """

    cluster: Cluster
    gates: FeatureGates
    complete: bool


class Linter(BasePlugin, ABC):
    """Checks the objects of one kind; its entry point has the name of the kind."""

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
        """Yield findings on these objects, which are all objects of the kind.

        They are unvalidated, except that each is an object of the kind.
        """


def installed() -> Catalogue[Linter]:
    """Return the installed linters by the kinds of their objects. Raises DuplicateName."""
    return Catalogue(GROUP, Linter)  # type: ignore[type-abstract]


def make(kind: str, handle: LintHandle) -> Linter:
    """Return the linter of a kind, with its default arguments. Raises PluginError where there is none."""
    catalogue = installed()
    return catalogue.make(kind, catalogue[kind].read_args(None, "args"), handle)


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings ordered by severity, the worst first, then by object name."""
    return sorted(findings, key=lambda found: (ORDER.index(found.severity), found.name, found.field))
