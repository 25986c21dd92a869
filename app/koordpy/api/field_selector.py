"""Field selectors: select objects of a list by some of their fields.

`metadata.name=a,status.phase!=Running`: the value of `fieldSelector=` of a list or watch. The caller flattens
an object into a map of field names to texts; a missing field is an empty text. Source of the rules:
Kubernetes, `k8s.io/apimachinery/pkg/fields`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from koordpy.lib.bounded_cache import cached

_TERM = re.compile(r"(?P<field>.*?)(?P<operator>!=|==|=)(?P<value>.*)", re.DOTALL)
_ESCAPED = re.compile(r"(?:[^\\,=]|\\[\\,=])*")


class FieldSelectorError(ValueError):
    """An invalid field selector; the message names the term and what was expected."""


@dataclass(frozen=True, slots=True)
class Term:
    """A field that must, or must not, have a value."""

    field: str
    value: str
    equal: bool

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether the field has (or has not) the value."""
        return (fields.get(self.field, "") == self.value) == self.equal

    def __str__(self) -> str:
        value = re.sub(r"[\\,=]", r"\\\g<0>", self.value)
        return f"{self.field}{'=' if self.equal else '!='}{value}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Terms that must all hold, in the order of their texts."""

    terms: tuple[Term, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether every object matches."""
        return not self.terms

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Return whether fields (name to text) meet all terms."""
        return all(term.matches(fields) for term in self.terms)

    def exact_value(self, field: str) -> str | None:
        """Return the value that a field must have to match, or None if there is no such term."""
        return next((term.value for term in self.terms if term.equal and term.field == field), None)

    def __str__(self) -> str:
        return ",".join(map(str, self.terms))


@cached("field_selectors", 1 << 20)
def parse(text: str) -> FieldSelector:
    r"""Read a field selector; empty text matches everything.

    Terms are separated by commas; the first `!=`, `==` or `=` ends the field name; in the value `\`, `,` and
    `=` must be written with a `\` before them. Raises FieldSelectorError.
    """
    terms = (_parse_term(text, part) for part in sorted(_split(text)) if part)
    return FieldSelector(tuple(term for term in terms if term.field or term.value))


def _split(text: str) -> Iterator[str]:
    r"""Split at commas without a `\` before them."""
    start = 0
    escaped = False
    for position, character in enumerate(text):
        if not escaped and character == ",":
            yield text[start:position]
            start = position + 1
        escaped = not escaped and character == "\\"
    yield text[start:]


def _parse_term(text: str, part: str) -> Term:
    match = _TERM.fullmatch(part)
    if match is None:
        raise FieldSelectorError(f"field selector {text!r}: term {part!r}: expected =, == or !=")
    if not _ESCAPED.fullmatch(match["value"]):
        raise FieldSelectorError(
            rf"field selector {text!r}: value {match['value']!r}: expected \\, \, or \= for each of \ , and ="
        )
    value = re.sub(r"\\(.)", r"\1", match["value"])
    return Term(match["field"], value, match["operator"] != "!=")
