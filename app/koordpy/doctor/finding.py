"""The findings of an examination."""

from collections.abc import Iterable
from enum import StrEnum

from koordpy.api.output_model import OutputModel


class State(StrEnum):
    """The state of one thing.

    PROBLEM: an enabled feature does not work, or not as intended. WARNING: it works, but probably not as
    intended. NOTE: worth knowing. UNKNOWN: it could not be examined. SKIPPED: a whole area that was not
    examined, because nothing that is enabled needs it.
    """

    OK = "ok"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"


class Finding(OutputModel):
    """One thing that was examined: `message` states the result, `fix` how to repair it."""

    area: str
    subject: str
    state: State
    message: str
    fix: str = ""


class Report(OutputModel):
    """All findings, and the number of findings in each state.

    `configurations` is what the enabled features are known from; empty for the defaults of `koordpy serve`.
    """

    server: str
    parts: list[str]
    configurations: list[str] = []
    counts: dict[State, int]
    findings: list[Finding]

    @property
    def exit_code(self) -> int:
        """0 without problems, 1 with problems, 2 when something could not be examined."""
        if self.counts[State.PROBLEM]:
            return 1
        return 2 if self.counts[State.UNKNOWN] else 0


def report(
    server: str, parts: Iterable[str], findings: Iterable[Finding], configurations: Iterable[str] = ()
) -> Report:
    """Return a report of findings, in their order."""
    found = list(findings)
    counts = {state: sum(1 for finding in found if finding.state is state) for state in State}
    return Report(
        server=server,
        parts=list(parts),
        configurations=list(configurations),
        counts=counts,
        findings=found,
    )


class Area:
    """Creates the findings of one area."""

    def __init__(self, name: str) -> None:
        self.name = name

    def ok(self, subject: str, message: str) -> Finding:
        """Report that something is as needed."""
        return Finding(area=self.name, subject=subject, state=State.OK, message=message)

    def note(self, subject: str, message: str, fix: str = "") -> Finding:
        """Report what is worth knowing."""
        return Finding(area=self.name, subject=subject, state=State.NOTE, message=message, fix=fix)

    def warning(self, subject: str, message: str, fix: str) -> Finding:
        """Report what is probably not intended."""
        return Finding(area=self.name, subject=subject, state=State.WARNING, message=message, fix=fix)

    def problem(self, subject: str, message: str, fix: str) -> Finding:
        """Report what does not work."""
        return Finding(area=self.name, subject=subject, state=State.PROBLEM, message=message, fix=fix)

    def unknown(self, subject: str, message: str, fix: str = "") -> Finding:
        """Report what could not be examined."""
        return Finding(area=self.name, subject=subject, state=State.UNKNOWN, message=message, fix=fix)

    def skipped(self, why: str) -> Finding:
        """Report that nothing of this area was examined."""
        return Finding(area=self.name, subject=self.name, state=State.SKIPPED, message=why)
