"""Whether label selectors can match at all, and whether several can match the same object.

Requirements on different keys are independent, so each key is solved separately: by searching for a value (or
the key's absence) that satisfies all requirements on it. The result is an example to show to users.
"""

from collections.abc import Iterator

from koordpy.lib import int64

from . import labels as label_syntax
from .label_selector import Operator, Requirement, Selector

_VALUES = (Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN)
_BOUNDS = (Operator.GREATER_THAN, Operator.LESS_THAN)


def example(*selectors: Selector) -> dict[str, str] | None:
    """Return a smallest set of labels that all selectors match; None if no object can have such labels.

    Keys and values in the answer are valid for the API server.
    """
    if any(not selector.requirements and not selector.is_empty for selector in selectors):
        return None
    by_key: dict[str, list[Requirement]] = {}
    for selector in selectors:
        for requirement in selector.requirements:
            by_key.setdefault(requirement.key, []).append(requirement)
    found: dict[str, str] = {}
    for key, requirements in by_key.items():
        if _all_match(requirements, {}):
            continue
        value = _value_of(key, requirements)
        if value is None:
            return None
        found[key] = value
    return found


def contradiction(selector: Selector) -> str | None:
    """Return why no object can match a selector: the requirements on one key that exclude each other.

    None if some object can.
    """
    if not selector.requirements and not selector.is_empty:
        return "it matches nothing"
    keys = dict.fromkeys(requirement.key for requirement in selector.requirements)
    for key in keys:
        own = [requirement for requirement in selector.requirements if requirement.key == key]
        if _all_match(own, {}) or _value_of(key, own) is not None:
            continue
        told = " and ".join(repr(str(requirement)) for requirement in own)
        if problem := label_syntax.key_error(key):
            return f"{told}: no object has a label {key!r}: {problem}"
        if len(own) > 1:
            return f"{told} exclude each other"
        return f"{told}: no object has a label with such a value"
    return None


def implies(narrow: Selector, wide: Selector) -> bool:
    """Whether every object that `narrow` matches is also matched by `wide`; false if that has Gt or Lt."""
    if not wide.requirements and not wide.is_empty:
        return example(narrow) is None
    return all(
        requirement.operator not in _BOUNDS  # whose negation is not a requirement: unknown
        and example(narrow, Selector([_negated(requirement)])) is None
        for requirement in wide.requirements
    )


def _negated(requirement: Requirement) -> Requirement:
    """Return the negation of a requirement; not for Gt and Lt."""
    match requirement.operator:
        case Operator.EXISTS:
            return Requirement(requirement.key, Operator.DOES_NOT_EXIST)
        case Operator.DOES_NOT_EXIST:
            return Requirement(requirement.key, Operator.EXISTS)
        case Operator.NOT_IN | Operator.NOT_EQUALS:
            return Requirement(requirement.key, Operator.IN, requirement.values)
        case _:
            return Requirement(requirement.key, Operator.NOT_IN, requirement.values)


def _value_of(key: str, requirements: list[Requirement]) -> str | None:
    """Return a value of a label that satisfies all requirements on its key, None if there is none."""
    if label_syntax.key_error(key):
        return None
    for value in _candidates(requirements):
        if label_syntax.value_error(value) is None and _all_match(requirements, {key: value}):
            return value
    return None


def _all_match(requirements: list[Requirement], labels: dict[str, str]) -> bool:
    return all(requirement.matches(labels) for requirement in requirements)


def _candidates(requirements: list[Requirement]) -> Iterator[str]:
    """Yield values of which one satisfies the requirements if any value does."""
    listed = next((item for item in requirements if item.operator in _VALUES), None)
    if listed is not None:
        yield from listed.values
        return
    # Each value listed elsewhere may be excluded, so one of this many distinct values is not.
    tries = sum(len(item.values) for item in requirements) + 1
    bounds = [item for item in requirements if item.operator in _BOUNDS]
    if not bounds:
        yield from ("x" * length for length in range(1, min(tries, label_syntax.MAX_NAME_LENGTH) + 1))
        yield from (f"x{number}" for number in range(tries))
        return
    lowest = max((_bound(item) + 1 for item in bounds if item.operator is Operator.GREATER_THAN), default=0)
    highest = min(
        (_bound(item) - 1 for item in bounds if item.operator is Operator.LESS_THAN), default=lowest + tries
    )
    lowest = max(lowest, 0)  # a label cannot begin with a minus sign
    for zeros in range(label_syntax.MAX_NAME_LENGTH):  # 7, 07 and 007 are one number but three values
        for number in range(lowest, min(highest, lowest + tries) + 1):
            yield "0" * zeros + str(number)


def _bound(requirement: Requirement) -> int:
    bound = int64.parse(requirement.values[0]) if len(requirement.values) == 1 else None
    return 0 if bound is None else bound
