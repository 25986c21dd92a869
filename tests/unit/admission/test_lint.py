"""Linters are found by the kind that they check, and findings are sorted for display."""

import pytest

from koordpy.admission.lint import Finding, LintHandle, Severity, by_severity, make
from koordpy.api.plugin_errors import NotInstalled
from koordpy.cluster.cluster import Cluster
from koordpy.lib.feature_gates import FeatureGates


def finding(severity: Severity, name: str, field: str = "spec") -> Finding:
    return Finding(severity=severity, rule="r", kind="K", name=name, field=field, expectation="e")


def test_the_worst_comes_first_and_then_the_name() -> None:
    found = [
        finding(Severity.NOTE, "a"),
        finding(Severity.ERROR, "b"),
        finding(Severity.WARNING, "a"),
        finding(Severity.ERROR, "a", "z"),
        finding(Severity.ERROR, "a", "b"),
    ]
    told = [(item.severity.value, item.name, item.field) for item in by_severity(found)]
    assert told == [
        ("error", "a", "b"),
        ("error", "a", "z"),
        ("error", "b", "spec"),
        ("warning", "a", "spec"),
        ("note", "a", "spec"),
    ]


def test_a_kind_without_a_linter_is_an_error_that_names_those_there_are() -> None:
    handle = LintHandle(Cluster(), FeatureGates({}), complete=True)
    assert make("ClusterColocationProfile", handle).kind == "ClusterColocationProfile"
    with pytest.raises(NotInstalled, match=r'got "Pod".* group koordpy\.lint; expected'):
        make("Pod", handle)
