"""Errors of label selectors in Kubernetes' words."""

import pytest

from koordpy.api import selector_errors
from koordpy.api.meta import LabelSelector, LabelSelectorRequirement

NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def expression(key: str, operator: str, *values: str) -> LabelSelector:
    return LabelSelector(
        match_expressions=[LabelSelectorRequirement(key=key, operator=operator, values=list(values))]
    )


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        (LabelSelector(), ""),
        (LabelSelector(match_labels={"example.com/app": "x"}), ""),
        (expression("a", "In", "x", ""), ""),
        (expression("a", "Bogus"), '"Bogus" is not a valid label selector operator'),
        (
            expression("a", "In"),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            expression("a", "Exists", "x"),
            'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
        ),
        (expression("-", "Exists"), f'key: Invalid value: "-": {NAME}'),
        (expression("", "Exists"), f'key: Invalid value: "": name part must be non-empty; {NAME}'),
        (expression("/a", "Exists"), 'key: Invalid value: "/a": prefix part must be non-empty'),
        (
            LabelSelector(match_labels={"a": "x" * 64}),
            f'values[0][a]: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
        ),
        (
            LabelSelector(match_labels={"a": "-"}),
            'values[0][a]: Invalid value: "-": a valid label must be an empty string or consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
            "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
        ),
    ],
)
def test_reason(selector: LabelSelector, reason: str) -> None:
    assert selector_errors.reason(selector) == reason


def test_errors_of_one_requirement_are_joined() -> None:
    reason = selector_errors.reason(expression("", "In"))
    assert reason.startswith("[key: Invalid value:")
    assert reason.endswith("values set can't be empty]")
