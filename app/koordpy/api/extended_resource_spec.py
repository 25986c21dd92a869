"""The extended-resource-spec annotation: its contents, equality, and encoding.

Koordinator compares parsed structs, so equality is stricter than equal amounts: the presence of a sub-map,
and whether a quantity keeps the text that it was parsed from, count too. If both are equal the user's text
stays, byte for byte. Source: Koordinator, `apis/extension/resource.go`
(`ExtendedResourceSpec`), `pkg/webhook/pod/mutating/extended_resource_spec.go`.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

from koordpy.lib import go_json

from .decoding import MALFORMED
from .quantity import Quantity, from_wire

Amounts = dict[str, Quantity]


@dataclass
class ContainerSpec:
    """The batch resources of one container; None where the annotation has no such sub-map."""

    limits: Amounts | None = None
    requests: Amounts | None = None


Containers = dict[str, ContainerSpec]

# Go's decoder parses a quantity from the text of a number, so fractions are kept as written.
_DECODER = msgspec.json.Decoder(float_hook=str)


def parse(text: str) -> Containers | None:
    """Parse the annotation; None if it has no `containers`.

    Field names are case-insensitive, unknown fields are ignored. Raises ValueError.
    """
    try:
        document = _DECODER.decode(text)
    except MALFORMED as error:
        raise ValueError(str(error)) from None
    containers = _member(_object(document, "annotation"), "containers")
    if containers is None:
        return None
    return {name: _container(item, name) for name, item in _object(containers, "containers").items()}


def _container(value: Any, name: str) -> ContainerSpec:
    members = _object(value, f"containers[{name}]")
    return ContainerSpec(*(_amounts(_member(members, field), name) for field in ("limits", "requests")))


def _amounts(value: Any, container: str) -> Amounts | None:
    if value is None:
        return None
    amounts = {}
    for name, amount in _object(value, f"containers[{container}]").items():
        if isinstance(amount, dict | list):
            raise ValueError(f"containers[{container}]: {name}: expected a quantity")
        amounts[name] = from_wire(amount)
    return amounts


def _object(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{where}: expected an object")
    return value


def _member(members: dict[str, Any], name: str) -> Any:
    """Return the last member with a name, ignoring case."""
    return next((value for key, value in reversed(members.items()) if key.lower() == name), None)


def same(left: Containers | None, right: Containers | None) -> bool:
    """Return whether two specs are equal, including the form of their quantities."""
    if left is None or right is None:
        return left is right
    return left.keys() == right.keys() and all(
        _same_amounts(item.limits, right[name].limits) and _same_amounts(item.requests, right[name].requests)
        for name, item in left.items()
    )


def _same_amounts(left: Amounts | None, right: Amounts | None) -> bool:
    if left is None or right is None:
        return left is right
    return left.keys() == right.keys() and all(
        quantity.has_same_form(right[name]) for name, quantity in left.items()
    )


def text(containers: Containers | None) -> str:
    """Encode the annotation: sorted, compact, without empty values."""
    if not containers:
        return "{}"
    written = {}
    for name in sorted(containers):
        item = containers[name]
        maps = {"limits": item.limits, "requests": item.requests}
        written[name] = {
            field: {key: str(amounts[key]) for key in sorted(amounts)}
            for field, amounts in maps.items()
            if amounts
        }
    return go_json.encode({"containers": written})
