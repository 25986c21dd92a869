"""Validates the values of a strategy, with Koordinator's messages.

Source: Koordinator, `pkg/util/sloconfig/validator.go`.
"""

from collections.abc import Iterator

from .strategy import Field, Strategy, fields_of


def problems(strategy: Strategy, path: str) -> dict[str, str]:
    """Return the first violation of each field, by the field's Go path, which begins with `path`.

    Only set fields are checked. Objects in lists and maps are not checked, as in Koordinator.
    """
    return dict(_problems(strategy, path))


def _problems(strategy: Strategy, path: str) -> Iterator[tuple[str, str]]:
    fields = fields_of(type(strategy))
    values = {name: getattr(strategy, field.attribute) for name, field in fields.items()}
    for name, field in fields.items():
        value = values[name]
        if value is None:
            continue
        if isinstance(value, Strategy):
            yield from _problems(value, f"{path}{field.go_name}.")
        for rule in field.rules:
            if problem := rule.problem(value, values):
                yield f"{path}{_embedded(field)}{field.go_name}", f"{field.go_name} {problem}"
                break


def _embedded(field: Field) -> str:
    return f"{field.embedded}." if field.embedded else ""
