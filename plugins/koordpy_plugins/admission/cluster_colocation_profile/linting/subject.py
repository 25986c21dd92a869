"""A profile under the eyes of the linter, and what is said about it."""

from typing import Any

from koordpy.admission.lint import Finding, Severity
from koordpy.api import extension
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.label_selector import EVERYTHING, Selector

from ..index import Matcher

KIND = ClusterColocationProfile.__name__


class Subject:
    """One profile, its selectors read once."""

    def __init__(self, profile: ClusterColocationProfile) -> None:
        self.profile = profile
        self.name = profile.metadata.name
        self.spec = profile.spec
        self.matcher = Matcher(profile)

    @property
    def selector(self) -> Selector:
        """Which pods match; everything where the profile does not say, or cannot be read."""
        return self.matcher.selector or EVERYTHING

    @property
    def namespace_selector(self) -> Selector:
        """Which namespaces match, in the same way."""
        return self.matcher.namespace_selector or EVERYTHING

    @property
    def is_managed(self) -> bool:
        """Whether the profile controller applies the profile again, without being told to do so with all."""
        return self.profile.metadata.labels.get(extension.LABEL_CONTROLLER_MANAGED) == "true"

    def finding(self, severity: Severity, rule: str, field: str, value: Any, expectation: str) -> Finding:
        """Return a finding about this profile."""
        return found(self.name, severity, rule, field, value, expectation)


def found(name: str, severity: Severity, rule: str, field: str, value: Any, expectation: str) -> Finding:
    """Return a finding about a profile that may not even be readable."""
    return Finding(
        severity=severity,
        rule=rule,
        kind=KIND,
        name=name,
        field=field,
        value=value,
        expectation=expectation,
    )
