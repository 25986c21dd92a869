"""The values that single parameters may take.

Source: Koordinator, `pkg/util/sloconfig/validator.go`.
"""

from collections.abc import Iterator
from typing import Any

from .reader import Values
from .shapes import EMBEDDED_PATHS, ConfigKind, Field, Shape, go_name


def problems(kind: ConfigKind, values: Values) -> dict[str, str]:
    """Return what is wrong with each field, by the field's path, sorted."""
    found: dict[str, str] = {}
    if values["cluster"] is not None:
        found.update(_check(kind.shape, values["cluster"], f"{kind.root}{kind.cluster_path}"))
    for index, node in enumerate(values["nodes"]):
        path = f"{kind.root}{kind.nodes_path}[{index}].{kind.strategy_path}"
        found.update(_check(kind.shape, node, path))
    return dict(sorted(found.items()))


def _check(shape: Shape, values: Values, path: str) -> Iterator[tuple[str, str]]:
    path += shape.path
    for name, field in shape.fields.items():
        if name in values and (problem := _problem(field, values)):
            yield f"{path}{EMBEDDED_PATHS.get(name, '')}{field.go_name}", f"{field.go_name} {problem}"
    for name, inner in shape.shapes.items():
        if name in values:
            yield from _check(inner, values[name], path)


def _problem(field: Field, values: Values) -> str:
    """Return the first rule that a value breaks, in the order in which a field's rules stand."""
    value: Any = values[field.name]
    if field.greater_than is not None and value <= field.greater_than:
        return f"must be greater than {field.greater_than:,}"
    if field.minimum is not None and value < field.minimum:
        return f"must be {field.minimum:,} or greater"
    if field.maximum is not None and value > field.maximum:
        return f"must be {field.maximum:,} or less"
    if field.above and (field.above not in values or value <= values[field.above]):
        return f"must be greater than {go_name(field.above)}"
    if field.below and (field.below not in values or value >= values[field.below]):
        return f"must be less than {go_name(field.below)}"
    return ""
