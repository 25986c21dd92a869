"""Runs one linter on the objects of a test."""

from collections.abc import Mapping
from typing import Any

from koordpy.admission import gates as admission_gates
from koordpy.admission.lint import Finding, Linter, LintHandle, by_severity
from koordpy.cluster.cluster import Cluster
from koordpy.lib.feature_gates import FeatureGates


def findings(
    linter: type[Linter],
    *documents: Mapping[str, Any],
    cluster: Cluster | None = None,
    gates: Mapping[str, bool] | None = None,
) -> list[Finding]:
    """Return a linter's findings in documents, the worst first.

    With a `cluster` its objects are known too; without one only the documents.
    """
    specs = {**admission_gates.SPECS, **linter.feature_gates}
    handle = LintHandle(cluster or Cluster(), FeatureGates(specs, gates), complete=cluster is not None)
    return by_severity(linter.make(handle).lint(list(documents)))
