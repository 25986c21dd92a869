"""The base of all forms."""

from typing import Any

import msgspec

from ...errors import bad_request


class Form(msgspec.Struct, rename="camel"):
    """The base of forms: JSON names are in camelCase, and fields that no rule reads may hold anything."""


class _Expression(Form):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class Selector(Form):
    """A label selector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[_Expression] | None = None


class Resources(Form):
    """Requests and limits."""

    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


def check(kind: str, document: Any, type_: type) -> None:
    """Raise ApiError (400) if a document does not have the types of a form."""
    try:
        msgspec.convert(document, type_)
    except msgspec.ValidationError as error:
        raise bad_request(f"the object cannot be handled as a {kind}: {error}") from None
