"""Label selectors: select objects by requirements on their labels.

A selector comes as a struct inside an object (`of`), as a plain map of labels (`of_labels`) or as text on a
command line or in a query (`parse`). Each is read once into a `Selector`; equal selectors share one matcher.
Source of all rules: Kubernetes, `k8s.io/apimachinery/pkg/labels`; Koordinator, `pkg/util/selector.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NoReturn

import msgspec

from koordpy.lib import int64
from koordpy.lib.bounded_cache import cached

from . import labels as label_syntax
from .meta import LabelSelector


class SelectorError(ValueError):
    """An invalid selector; the message names the part and what was expected."""


class Operator(StrEnum):
    """How a requirement relates a key to its values, as written in selector text."""

    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER_THAN = "gt"
    LESS_THAN = "lt"


_EQUAL: Final = frozenset((Operator.EQUALS, Operator.DOUBLE_EQUALS))
_IN: Final = frozenset((Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.IN))
_NOT_IN: Final = frozenset((Operator.NOT_EQUALS, Operator.NOT_IN))
_ONE_VALUE: Final = frozenset((Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS))
_NO_VALUE: Final = frozenset((Operator.EXISTS, Operator.DOES_NOT_EXIST))
_NUMERIC: Final = frozenset((Operator.GREATER_THAN, Operator.LESS_THAN))
_STRUCT_OPERATORS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}


class Requirement:
    """One key, an operator and values. Not validated: `requirement` makes valid ones."""

    __slots__ = ("_bound", "_set", "key", "operator", "values")

    def __init__(self, key: str, operator: Operator, values: tuple[str, ...] = ()) -> None:
        self.key = key
        self.operator = operator
        self.values = values
        self._set = frozenset(values)
        self._bound = int64.parse(values[0]) if operator in _NUMERIC and len(values) == 1 else None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement.

        NotIn and `!=` hold for a missing key; Gt and Lt hold neither for a missing key nor for a label that
        is not a 64-bit integer.
        """
        found = labels.get(self.key)
        if self.operator in _IN:
            return found is not None and found in self._set
        if self.operator in _NOT_IN:
            return found is None or found not in self._set
        if self.operator is Operator.EXISTS:
            return found is not None
        if self.operator is Operator.DOES_NOT_EXIST:
            return found is None
        number = None if found is None else int64.parse(found)
        if number is None or self._bound is None:
            return False
        return number > self._bound if self.operator is Operator.GREATER_THAN else number < self._bound

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Requirement):
            return NotImplemented
        return (self.key, self.operator, self.values) == (other.key, other.operator, other.values)

    def __hash__(self) -> int:
        return hash((self.key, self.operator, self.values))

    def __str__(self) -> str:
        values = ",".join(sorted(self.values))
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({values})"
            case Operator.GREATER_THAN:
                return f"{self.key}>{values}"
            case Operator.LESS_THAN:
                return f"{self.key}<{values}"
            case _:
                return f"{self.key}{self.operator}{values}"

    def __repr__(self) -> str:
        return f"Requirement({str(self)!r})"


def requirement(key: str, operator: Operator, values: Iterable[str] = ()) -> Requirement:
    """Create a requirement; raise SelectorError if the key, the number of values or a value is invalid."""
    values = tuple(values)
    if problem := label_syntax.key_error(key):
        raise SelectorError(f"label selector: key {key!r}: {problem}")
    count = len(values)
    if operator in _NO_VALUE and count:
        raise SelectorError(f"label selector: {key}: operator {operator} takes no values, got {list(values)}")
    if (operator in _ONE_VALUE or operator in _NUMERIC) and count != 1:
        raise SelectorError(f"label selector: {key}: operator {operator} takes one value, got {list(values)}")
    if operator in (Operator.IN, Operator.NOT_IN) and not count:
        raise SelectorError(f"label selector: {key}: operator {operator} needs at least one value")
    if operator in _NUMERIC and int64.parse(values[0]) is None:
        raise SelectorError(f"label selector: {key}: value {values[0]!r}: expected a 64-bit integer")
    for value in values:
        if problem := label_syntax.value_error(value):
            raise SelectorError(f"label selector: {key}: value {value!r}: {problem}")
    return Requirement(key, operator, values)


class Selector:
    """Requirements that must all hold, sorted by key. `NOTHING` is the one selector that never matches."""

    __slots__ = ("_equal", "_hash", "_nothing", "_others", "requirements")

    def __init__(self, requirements: Iterable[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda item: item.key))
        self._nothing = nothing
        self._equal = tuple(
            (item.key, item.values[0]) for item in self.requirements if item.operator in _EQUAL
        )
        self._others = tuple(item for item in self.requirements if item.operator not in _EQUAL)
        self._hash: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether every set of labels matches."""
        return not self.requirements and not self._nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet all requirements."""
        if self._nothing:
            return False
        get = labels.get
        for key, value in self._equal:
            if get(key) != value:
                return False
        return all(item.matches(labels) for item in self._others) if self._others else True

    def exact_value(self, key: str) -> str | None:
        """Return the one value that a label must have to match, or None if there is not exactly one."""
        for item in self.requirements:
            if item.key == key:
                return item.values[0] if item.operator in _IN and len(item.values) == 1 else None
        return None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selector):
            return NotImplemented
        return self._nothing == other._nothing and self.requirements == other.requirements

    def __hash__(self) -> int:
        if self._hash is None:  # selectors are keys of caches that every pod is looked up in
            self._hash = hash((self._nothing, self.requirements))
        return self._hash

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))

    def __repr__(self) -> str:
        return "Selector(nothing)" if self._nothing else f"Selector({str(self)!r})"


EVERYTHING: Final = Selector()
NOTHING: Final = Selector(nothing=True)


def of_labels(labels: Mapping[str, str]) -> Selector:
    """Return the selector for objects that have all these labels; keys and values are not validated."""
    return Selector(Requirement(key, Operator.EQUALS, (value,)) for key, value in labels.items())


def of(selector: LabelSelector | None) -> Selector:
    """Return the matcher of a selector struct: None matches nothing, an empty one everything.

    Raises SelectorError for an unknown operator, or an invalid key, value or number of values.
    """
    if selector is None:
        return NOTHING
    return _of_packed(msgspec.msgpack.encode(selector))


@cached("label_selectors", 8 << 20)
def _of_packed(packed: bytes) -> Selector:
    selector = msgspec.msgpack.decode(packed, type=LabelSelector)
    return Selector(_requirements(selector))


def _requirements(selector: LabelSelector) -> Iterator[Requirement]:
    for key, value in selector.match_labels.items():
        yield requirement(key, Operator.EQUALS, (value,))
    for expression in selector.match_expressions:
        operator = _STRUCT_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(f'"{expression.operator}" is not a valid label selector operator')
        yield requirement(expression.key, operator, expression.values)


def fast_of(selector: LabelSelector) -> Selector:
    """Return the matcher of Koordinator's fast selector: matchLabels alone are not validated."""
    if selector.match_labels and not selector.match_expressions:
        return of_labels(selector.match_labels)
    return of(selector)


@cached("selector_texts", 2 << 20)
def parse(text: str) -> Selector:
    """Read selector text as given to `kubectl -l` or `labelSelector=`; empty text matches everything.

    Requirements are separated by commas: `k`, `!k`, `k=v`, `k==v`, `k!=v`, `k in (a,b)`, `k notin (a,b)`,
    `k>1`, `k<1`. Raises SelectorError.
    """
    return Selector(_Parser(text).selector())


_BLANKS: Final = " \t\r\n"
_SYMBOLS: Final = "=!(),><"
_OPERATORS: Final = {
    "=": Operator.EQUALS,
    "==": Operator.DOUBLE_EQUALS,
    "!=": Operator.NOT_EQUALS,
    "in": Operator.IN,
    "notin": Operator.NOT_IN,
    ">": Operator.GREATER_THAN,
    "<": Operator.LESS_THAN,
}
_END: Final = ""


def _tokens(text: str) -> Iterator[str]:
    """Split text into words and symbols. A NUL ends the text, or just the word or symbol it follows."""
    position, end = 0, len(text)
    while position < end and text[position] != "\0":
        start = position
        if text[position] in _BLANKS:
            position += 1
            continue
        if text[position] in _SYMBOLS:
            position += 2 if text[position : position + 2] in ("==", "!=") else 1
        else:
            while position < end and text[position] not in _BLANKS + _SYMBOLS + "\0":
                position += 1
        yield text[start:position]
        if text[position : position + 1] == "\0":
            position += 1


class _Parser:
    """A recursive-descent parser over the tokens; the end is an empty token that is never passed."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [*_tokens(text), _END]
        self._position = 0

    def selector(self) -> Iterator[Requirement]:
        if self._peek() == _END:
            return
        while True:
            yield self._requirement()
            if (token := self._take()) == _END:
                return
            if token != ",":
                self._fail(token, "',' or the end")

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._take()
        key = self._word("a label key")
        if problem := label_syntax.key_error(key):
            raise SelectorError(f"label selector {self._text!r}: key {key!r}: {problem}")
        if absent or self._peek() in (_END, ","):
            return requirement(key, Operator.DOES_NOT_EXIST if absent else Operator.EXISTS)
        token = self._take()
        operator = _OPERATORS.get(token)
        if operator is None:
            self._fail(token, "=, ==, !=, in, notin, > or <")
        values = self._set() if operator in (Operator.IN, Operator.NOT_IN) else {self._value()}
        return requirement(key, operator, sorted(values))

    def _value(self) -> str:
        return "" if self._peek() in (_END, ",") else self._word("a value")

    def _set(self) -> set[str]:
        if (token := self._take()) != "(":
            self._fail(token, "'('")
        values: set[str] = set()
        while True:
            values.add("" if self._peek() in (",", ")") else self._word("',', ')' or a value"))
            if (token := self._take()) == ")":
                return values
            if token != ",":
                self._fail(token, "',' or ')'")

    def _word(self, expected: str) -> str:
        token = self._take()
        if token == _END or token[0] in _SYMBOLS:
            self._fail(token, expected)
        return token

    def _peek(self) -> str:
        return self._tokens[self._position]

    def _take(self) -> str:
        token = self._tokens[self._position]
        if token != _END:
            self._position += 1
        return token

    def _fail(self, found: str, expected: str) -> NoReturn:
        raise SelectorError(f"label selector {self._text!r}: found {found!r}, expected {expected}")
