"""`koordpy profile lint`: profiles that never match, conflict with each other, or break pods."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from koordpy.admission import lint as linting
from koordpy.admission.explain import feed
from koordpy.admission.lint import Finding, LintHandle, Severity
from koordpy.api.output_model import OutputModel
from koordpy.api.workloads import name_of
from koordpy.cluster.cluster import Cluster
from koordpy.lib.feature_gates import FeatureGates

from .known import PROFILE, Access, NothingGiven, fill_facts, profiles_of
from .output import counted

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}
_LONGEST_VALUE = 60


class Report(OutputModel):
    """The findings; `profiles` is the number of profiles that were checked."""

    profiles: int
    errors: int
    warnings: int
    notes: int
    findings: list[Finding]


async def lint(
    documents: Sequence[Mapping[str, Any]] | None, *, gates: FeatureGates, access: Access
) -> Report:
    """Lint the profiles among documents; without (None), or with a cluster named, those of a cluster.

    Namespaces and priority classes among documents count too; documents take precedence over objects of the
    cluster. Raises NothingGiven where there is no profile.
    """
    cluster = Cluster()
    complete = access.is_given or documents is None
    documents = documents or ()
    written: list[dict[str, Any]] = []
    if complete:
        async with access.client() as client:
            await fill_facts(cluster, client)
            written = await profiles_of(client)
    own = [dict(document) for document in documents if document.get("kind") == PROFILE]
    feed(cluster, [document for document in documents if document.get("kind") != PROFILE])
    if not own and not complete:
        raise NothingGiven(f"no {PROFILE}: nothing to lint")
    names = {name_of(document) for document in own}
    every = [document for document in written if name_of(document) not in names] + own
    linter = linting.make(PROFILE, LintHandle(cluster, gates, complete))
    findings = linting.by_severity(linter.lint(every))
    count = Counter(finding.severity for finding in findings)
    return Report(
        profiles=len(every),
        errors=count[Severity.ERROR],
        warnings=count[Severity.WARNING],
        notes=count[Severity.NOTE],
        findings=findings,
    )


def show(to: Console, report: Report) -> None:
    """Print a report as text."""
    for finding in report.findings:
        colour = _COLOURS[finding.severity]
        value = "" if finding.value is None else f" = {_cut(finding.value)}"
        name = escape(finding.name or "(no name)")
        to.print(
            f"[{colour}]{finding.severity.value}[/{colour}] [bold]{name}[/bold] "
            f"{escape(finding.field)}{escape(value)}  [dim]{finding.rule}[/dim]"
        )
        to.print(f"    {escape(finding.expectation)}")
    counts = [
        counted(report.errors, "error"),
        counted(report.warnings, "warning"),
        counted(report.notes, "note"),
    ]
    to.print(f"{counted(report.profiles, 'profile')}: {', '.join(counts)}")


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
