"""What an audit finds, and what it has checked."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from koordpy.api.output_model import OutputModel


class Severity(StrEnum):
    """ERROR: something is handed out twice, or more than there is. WARNING: the books disagree otherwise.

    Warnings are what need not be a mistake of a scheduler: a status that lags, a device that became
    unhealthy, a limit that was lowered below what is used, an annotation that cannot be read. NOTE: what
    colocation brings about while it works, which is no finding.
    """

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Owner(OutputModel):
    """An object that holds something, and how much of it, where that is an amount."""

    kind: str
    name: str
    amount: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" ({self.amount})" if self.amount else "")


class Finding(OutputModel):
    """One thing that is wrong: which check found it, where, what, who holds it, and how much of how much.

    `node` is empty for what is not on a node. `held` and `limit` are texts, empty where the finding is not
    about an amount.
    """

    check: str
    severity: Severity
    node: str
    what: str
    problem: str
    owners: list[Owner]
    held: str = ""
    limit: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        """What stays equal while the same thing is wrong.

        Owners and amounts of an error may change meanwhile. A warning is another one with other amounts: a
        status that follows late differs all the time in a busy cluster, and is never wrong for long.
        """
        same = (self.check, self.severity.value, self.node, self.what, self.problem)
        return same if self.severity is Severity.ERROR else (*same, self.held, self.limit)


class Outcome(StrEnum):
    """DONE: there was something to check. NOTHING: there was not. IMPOSSIBLE: objects were not available."""

    DONE = "done"
    NOTHING = "nothing to check"
    IMPOSSIBLE = "not possible"


class Checked(OutputModel):
    """What one check has looked at: how many of what, or why it could not."""

    check: str
    outcome: Outcome
    counts: dict[str, int] = {}
    reason: str = ""


@dataclass
class Counts:
    """What the checks looked at, added up over all nodes: by check, by what."""

    of: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, check: str, what: str, number: int) -> None:
        """Count what a check has looked at."""
        known = self.of.setdefault(check, {})
        known[what] = known.get(what, 0) + number


class Report(OutputModel):
    """The result: objects that were read by kind, what was checked, and all findings, errors first.

    `notes` have the form of findings, and are none.
    """

    source: str = ""
    objects: dict[str, int]
    checks: list[Checked]
    errors: int
    warnings: int
    findings: list[Finding]
    notes: list[Finding] = []

    @property
    def exit_code(self) -> int:
        """0 if the books are clean, 1 with findings."""
        return 1 if self.findings else 0


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings, errors first, then by check, node and what."""
    return sorted(findings, key=lambda found: (found.severity.value, found.check, found.node, found.what))
