"""Read a configuration's JSON text as Go's decoder does: unknown fields are ignored, wrong types refused."""

from typing import Any

import msgspec

from koordpy.api.patch import describe
from koordpy.api.quantity import QuantityError, from_wire
from koordpy.api.scheme import MALFORMED, DecodeError
from koordpy.lib import int64

from .shapes import ConfigKind, Kind, Shape

Values = dict[str, Any]


def parse(kind: ConfigKind, text: str) -> Values:
    """Return the known fields of a configuration, without nulls. Raises DecodeError.

    The cluster's strategy stands under `cluster`, the nodes' under `nodes`, each of those with `name` and
    `nodeSelector` beside its own fields.
    """
    try:
        document = msgspec.json.decode(text.encode())
    except MALFORMED as error:
        raise DecodeError(str(error)) from None
    if not isinstance(document, dict):
        raise DecodeError(f"expected an object, got {describe(document)}")
    if kind.cluster:
        cluster = _member(document, kind.cluster)
        values: Values = {
            "cluster": None if cluster is None else _read_shape(kind.shape, cluster, kind.cluster)
        }
    else:
        values = {"cluster": _read_shape(kind.shape, document, "")}
    nodes = _member(document, kind.nodes)
    if nodes is None:
        nodes = []
    if not isinstance(nodes, list):
        raise DecodeError(f"{kind.nodes}: expected a list, got {describe(nodes)}")
    values["nodes"] = [
        _read_node(kind, {} if node is None else node, f"{kind.nodes}[{at}]") for at, node in enumerate(nodes)
    ]
    return values


def _read_node(kind: ConfigKind, node: Any, path: str) -> Values:
    values = _read_shape(kind.shape, node, path)
    name = _member(node, "name")
    if name is not None and not isinstance(name, str):
        raise DecodeError(f"{path}.name: expected a text, got {describe(name)}")
    return values | {"name": name or "", "nodeSelector": _member(node, "nodeSelector")}


def _member(document: Values, name: str) -> Any:
    """Return a member; as Go has it, one whose name differs in case only counts too."""
    if name in document:
        return document[name]
    return next((value for key, value in document.items() if key.lower() == name.lower()), None)


def _read_shape(shape: Shape, document: Any, path: str) -> Values:
    if not isinstance(document, dict):
        raise DecodeError(f"{path}: expected an object, got {describe(document)}")
    values: Values = {}
    for name, field in shape.fields.items():
        value = _member(document, name)
        if value is not None:
            _check(field.kind, value, f"{path}.{name}")
            values[name] = value
    for name, inner in shape.shapes.items():
        value = _member(document, name)
        if value is not None:
            values[name] = _read_shape(inner, value, f"{path}.{name}")
    return values


def _check(kind: Kind, value: Any, path: str) -> None:
    """Raise DecodeError for a value of another type."""
    is_int = isinstance(value, int) and not isinstance(value, bool)
    bits = 32 if kind in (Kind.INT32, Kind.INT_OR_STRING) else 64
    fits = is_int and int64.fits(value << (64 - bits))
    match kind:
        case Kind.BOOL:
            is_right = isinstance(value, bool)
        case Kind.INT | Kind.INT32:
            is_right = fits
        case Kind.FLOAT:
            is_right = is_int or isinstance(value, float)
        case Kind.STRING:
            is_right = isinstance(value, str)
        case Kind.INT_OR_STRING:
            is_right = fits or isinstance(value, str)
        case Kind.OBJECT:
            is_right = isinstance(value, dict)
        case Kind.LIST:
            is_right = isinstance(value, list)
        case Kind.BOOLS:
            is_right = isinstance(value, dict) and all(
                item is None or isinstance(item, bool) for item in value.values()
            )
        case Kind.QUANTITY:
            try:
                from_wire(value)
            except (QuantityError, TypeError) as error:
                raise DecodeError(f"{path}: {error}") from None
            return
    if not is_right:
        raise DecodeError(f"{path}: expected {kind.value}, got {describe(value)}")
