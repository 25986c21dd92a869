"""What is wrong with a label selector, in Kubernetes' words.

`label_selector` refuses the same selectors with messages of its own; these are for texts that must be those
of a Go component: `errors` are those of making a matcher, `field_errors` those of validating the field of an
object. Source: Kubernetes, `k8s.io/apimachinery` (`pkg/labels`, `pkg/apis/meta/v1`,
`pkg/apis/meta/v1/validation`, `pkg/api/validate/content`).
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from .field_error import FieldError, aggregate, forbidden, invalid, required
from .labels import MAX_NAME_LENGTH, MAX_PREFIX_LENGTH
from .meta import LabelSelector, LabelSelectorRequirement

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")

_NAME_FORMAT: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_FORMAT: Final = f"({_NAME_FORMAT})?"
_LABEL_FORMAT: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FORMAT: Final = rf"{_LABEL_FORMAT}(\.{_LABEL_FORMAT})*"

_CHARACTERS: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
_NAME_ERROR: Final = (
    f"{_CHARACTERS} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    f"'{_NAME_FORMAT}')"
)
_VALUE_ERROR: Final = (
    f"a valid label must be an empty string or {_CHARACTERS.removeprefix('must ')} (e.g. 'MyValue',  or "
    f"'my_value',  or '12345', regex used for validation is '{_VALUE_FORMAT}')"
)
_SUBDOMAIN_ERROR: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN_FORMAT}')"
)


def reason(selector: LabelSelector) -> str:
    """Return the errors in the first invalid requirement, joined; empty for a valid selector."""
    found = errors(selector)
    return aggregate(found) if found else ""


def errors(selector: LabelSelector) -> list[FieldError]:
    """Return the errors in the first invalid requirement; empty for a valid selector."""
    for key, value in sorted(selector.match_labels.items()):
        if found := _requirement_errors(key, "Equals", [value]):
            return found
    for item in selector.match_expressions:
        if item.operator not in _OPERATORS:
            return [FieldError("", f"{_json(item.operator)} is not a valid label selector operator")]
        if found := _requirement_errors(item.key, item.operator, item.values):
            return found
    return []


def field_errors(path: str, selector: LabelSelector) -> Iterator[FieldError]:
    """Yield all errors of a selector that is a field of an object."""
    where = f"{path}.matchLabels"
    for key, value in sorted(selector.match_labels.items()):
        yield from (invalid(where, key, problem) for problem in _key_errors(key))
        yield from (invalid(where, value, problem) for problem in _value_errors(value))
    for index, expression in enumerate(selector.match_expressions):
        yield from _expression_errors(f"{path}.matchExpressions[{index}]", expression)


def _expression_errors(path: str, item: LabelSelectorRequirement) -> Iterator[FieldError]:
    if item.operator in ("In", "NotIn"):
        if not item.values:
            yield required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif item.operator in ("Exists", "DoesNotExist"):
        if item.values:
            yield forbidden(
                f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
    else:
        yield invalid(f"{path}.operator", item.operator, "not a valid selector operator")
    yield from (invalid(f"{path}.key", item.key, problem) for problem in _key_errors(item.key))
    for index, value in enumerate(item.values):
        yield from (invalid(f"{path}.values[{index}]", value, problem) for problem in _value_errors(value))


def _requirement_errors(key: str, operator: str, values: Sequence[str]) -> list[FieldError]:
    errors = []
    if problems := _key_errors(key):
        errors.append(FieldError("key", f"Invalid value: {_json(key)}: {'; '.join(problems)}"))
    given = _json(list(values) or None)
    if operator in ("In", "NotIn") and not values:
        detail = "for 'in', 'notin' operators, values set can't be empty"
        errors.append(FieldError("values", f"Invalid value: {given}: {detail}"))
    elif operator in ("Exists", "DoesNotExist") and values:
        detail = "values set must be empty for exists and does not exist"
        errors.append(FieldError("values", f"Invalid value: {given}: {detail}"))
    errors.extend(
        FieldError(f"values[{index}][{key}]", f"Invalid value: {_json(value)}: {'; '.join(problems)}")
        for index, value in enumerate(values)
        if (problems := _value_errors(value))
    )
    return errors


def _key_errors(key: str) -> list[str]:
    prefix, slash, name = key.partition("/")
    if "/" in name:
        return [
            f"a valid label key {_NAME_ERROR} with an optional DNS subdomain prefix and '/' (e.g. "
            "'example.com/MyName')"
        ]
    if not slash:
        prefix, name = "", key
    errors = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif slash:
        if len(prefix.encode()) > MAX_PREFIX_LENGTH:
            errors.append(f"prefix part must be no more than {MAX_PREFIX_LENGTH} bytes")
        if not re.fullmatch(_SUBDOMAIN_FORMAT, prefix):
            errors.append(f"prefix part {_SUBDOMAIN_ERROR}")
    if not name:
        errors.append("name part must be non-empty")
    elif len(name.encode()) > MAX_NAME_LENGTH:
        errors.append(f"name part must be no more than {MAX_NAME_LENGTH} bytes")
    if not re.fullmatch(_NAME_FORMAT, name):
        errors.append(f"name part {_NAME_ERROR}")
    return errors


def _value_errors(value: str) -> list[str]:
    errors = []
    if len(value.encode()) > MAX_NAME_LENGTH:
        errors.append(f"must be no more than {MAX_NAME_LENGTH} bytes")
    if not re.fullmatch(_VALUE_FORMAT, value):
        errors.append(_VALUE_ERROR)
    return errors


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
