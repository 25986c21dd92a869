"""Amplification of a quantity: float64 arithmetic on thousandths, truncated toward zero.

Source: Koordinator, `pkg/webhook/node/plugins/resourceamplification/resource_amplification.go`.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from koordpy.api import extension, resource_list
from koordpy.api.quantity import Quantity
from koordpy.api.scheme import MALFORMED, DecodeError
from koordpy.lib import int64

SUPPORTED: Final = (extension.CPU, extension.MEMORY)
"""The amplified resources."""

_RATIOS = msgspec.json.Decoder(dict[str, float | None] | None)


def parse_ratios(text: str) -> dict[str, float]:
    """Parse amplification ratios by resource name. Raises DecodeError."""
    try:
        ratios = _RATIOS.decode(text.encode())
    except MALFORMED as error:
        raise DecodeError(str(error)) from None
    return {name: ratio or 0.0 for name, ratio in (ratios or {}).items()}


def amplify(raw: Mapping[str, Quantity], ratios: Mapping[str, float]) -> resource_list.Quantities:
    """Return the amplified amounts of the supported resources that are in `raw` and have a ratio above 1."""
    return {
        name: _amplified(raw[name], ratios[name])
        for name in SUPPORTED
        if name in raw and ratios.get(name, 0) > 1
    }


def _amplified(amount: Quantity, ratio: float) -> Quantity:
    return Quantity.of_milli(int64.from_float(float(amount.milli_value()) * ratio), amount.format)
