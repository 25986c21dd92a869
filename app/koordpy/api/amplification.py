"""Amplification of resources: a node offers more than it has, by a ratio for each resource.

Source: Koordinator, `apis/extension/node_resource_amplification.go`.
"""

from collections.abc import Mapping
from math import ceil, isfinite

from koordpy.lib import go_json, int64

from . import extension
from .quantity import Format, Quantity
from .resource_amounts import Amounts
from .resource_list import Quantities
from .resource_names import EPHEMERAL_STORAGE, MEMORY

Ratios = Mapping[str, float]

_BINARY = (MEMORY, EPHEMERAL_STORAGE)


def node_ratios(annotations: Mapping[str, str]) -> Ratios | None:
    """Return the ratios by resource name in the annotations of a node or of its NodeResourceTopology.

    None if there are none; an empty mapping is not none. Raises ValueError.
    """
    text = annotations.get(extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO)
    return None if text is None else parse_ratios(text)


def parse_ratios(text: str) -> Ratios | None:
    """Read the ratios from the annotation's text; None for null. Raises ValueError."""
    try:
        ratios = go_json.mapping(go_json.parse(text), "value")
        if ratios is None:
            return None
        return {name: go_json.number(ratio, name) for name, ratio in ratios.items()}
    except ValueError as error:
        raise ValueError(f"failed to unmarshal node resource amplification ratio: {error}") from None


def amplify(amount: int, ratio: float) -> int:
    """Return an amount times a ratio, rounded up; unchanged for a ratio of at most 1."""
    if ratio <= 1:
        return amount
    product = float(amount) * ratio
    return int64.from_float(float(ceil(product))) if isfinite(product) else int64.MIN


def amplify_list(amounts: Amounts, ratios: Ratios | None) -> Quantities:
    """Return a resource list amplified: cpu by its thousandths, everything else by whole numbers."""
    amplified = dict(amounts)
    for name, amount in amounts.items():
        ratio = ratios.get(name, 0.0) if ratios else 0.0
        if ratio <= 1 or amount.is_zero:
            continue
        if name == extension.CPU:
            amplified[name] = Quantity.of_milli(amplify(amount.milli_value(), ratio))
        else:
            form = Format.BINARY_SI if name in _BINARY else Format.DECIMAL_SI
            amplified[name] = Quantity.of(amplify(amount.value(), ratio), form)
    return amplified
