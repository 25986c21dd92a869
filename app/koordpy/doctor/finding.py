"""What an examination finds."""

from collections.abc import Iterable
from enum import StrEnum

from pydantic import BaseModel


class State(StrEnum):
    """How it stands with something.

    PROBLEM: a feature that is on does not work, or not as meant. WARNING: it works, in a way that is probably
    not meant. NOTE: worth knowing. UNKNOWN: it could not be looked at.
    """

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


class Finding(BaseModel):
    """One thing that was looked at: `message` says how it stands, `fix` how to mend it."""

    area: str
    subject: str
    state: State
    message: str
    fix: str = ""


class Report(BaseModel):
    """Everything that was found, and how often each state."""

    server: str
    parts: list[str]
    counts: dict[State, int]
    findings: list[Finding]

    @property
    def exit_code(self) -> int:
        """0 when all is well, 1 with problems, 2 when something could not be looked at."""
        if self.counts[State.PROBLEM]:
            return 1
        return 2 if self.counts[State.UNKNOWN] else 0


def report(server: str, parts: Iterable[str], findings: Iterable[Finding]) -> Report:
    """Return findings as a report, in the order in which they were found."""
    found = list(findings)
    counts = {state: sum(1 for finding in found if finding.state is state) for state in State}
    return Report(server=server, parts=list(parts), counts=counts, findings=found)


class Area:
    """Makes the findings of one area."""

    def __init__(self, name: str) -> None:
        self.name = name

    def ok(self, subject: str, message: str) -> Finding:
        """Say that all is well with something."""
        return Finding(area=self.name, subject=subject, state=State.OK, message=message)

    def note(self, subject: str, message: str, fix: str = "") -> Finding:
        """Say what is worth knowing."""
        return Finding(area=self.name, subject=subject, state=State.NOTE, message=message, fix=fix)

    def warning(self, subject: str, message: str, fix: str) -> Finding:
        """Say what is probably not meant."""
        return Finding(area=self.name, subject=subject, state=State.WARNING, message=message, fix=fix)

    def problem(self, subject: str, message: str, fix: str) -> Finding:
        """Say what does not work."""
        return Finding(area=self.name, subject=subject, state=State.PROBLEM, message=message, fix=fix)

    def unknown(self, subject: str, message: str, fix: str = "") -> Finding:
        """Say what could not be looked at."""
        return Finding(area=self.name, subject=subject, state=State.UNKNOWN, message=message, fix=fix)
