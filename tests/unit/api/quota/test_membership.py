"""Which quota a pod belongs to."""

from collections.abc import Iterable

import pytest

from koordpy.api.extension import LABEL_QUOTA_NAME
from koordpy.api.quota.info import DEFAULT
from koordpy.api.quota.membership import quota_name


class Quotas:
    """A namespace `own` with a quota of its own, and `bound` that two quotas name."""

    def has_own(self, namespace: str) -> bool:
        return namespace == "own"

    def bound_to(self, namespace: str) -> Iterable[str]:
        return ["older", "newer"] if namespace in ("bound", "own") else []


@pytest.mark.parametrize(
    ("label", "namespace", "expected"),
    [
        ("team", "own", "team"),
        ("", "own", "own"),
        ("", "bound", "older"),
        ("", "other", DEFAULT),
        (None, "bound", "older"),
    ],
)
def test_the_label_decides_then_the_namespace_then_the_default(
    label: str | None, namespace: str, expected: str
) -> None:
    labels = {} if label is None else {LABEL_QUOTA_NAME: label}
    assert quota_name(labels, namespace, Quotas()) == expected


@pytest.mark.parametrize(("labels", "expected"), [({LABEL_QUOTA_NAME: "team"}, "team"), ({}, "")])
def test_nothing_but_the_label_counts_without_default_quotas(labels: dict[str, str], expected: str) -> None:
    assert quota_name(labels, "own", Quotas(), label_only=True) == expected
