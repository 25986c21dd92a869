"""A profile that is being checked."""

from typing import Any

from koordpy.admission.lint import Finding, Severity
from koordpy.api import extension
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.label_selector import EVERYTHING, Selector

from ..index import Matcher

KIND = ClusterColocationProfile.__name__


class Subject:
    """One profile, with its selectors parsed once."""

    def __init__(self, profile: ClusterColocationProfile) -> None:
        self.profile = profile
        self.name = profile.metadata.name
        self.spec = profile.spec
        self.matcher = Matcher(profile)

    @property
    def selector(self) -> Selector:
        """The selector of pods; it matches everything where the profile has none, or an invalid one."""
        return self.matcher.selector or EVERYTHING

    @property
    def namespace_selector(self) -> Selector:
        """The selector of namespaces, in the same way."""
        return self.matcher.namespace_selector or EVERYTHING

    @property
    def is_managed(self) -> bool:
        """Whether the profile controller re-applies the profile without `reconcileByDefault`."""
        return self.profile.metadata.labels.get(extension.LABEL_CONTROLLER_MANAGED) == "true"

    def finding(self, severity: Severity, rule: str, field: str, value: Any, expectation: str) -> Finding:
        """Return a finding on this profile."""
        return found(self.name, severity, rule, field, value, expectation)


def found(name: str, severity: Severity, rule: str, field: str, value: Any, expectation: str) -> Finding:
    """Return a finding on a profile that may not be decodable."""
    return Finding(
        severity=severity,
        rule=rule,
        kind=KIND,
        name=name,
        field=field,
        value=value,
        expectation=expectation,
    )
