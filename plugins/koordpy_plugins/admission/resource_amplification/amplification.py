"""Amplification of a quantity: float64 arithmetic on thousandths, truncated toward zero.

Source: Koordinator, `pkg/webhook/node/plugins/resourceamplification/resource_amplification.go`.
"""

from collections.abc import Mapping
from typing import Final

from koordpy.api import extension, resource_list
from koordpy.api.quantity import Quantity
from koordpy.lib import int64

SUPPORTED: Final = (extension.CPU, extension.MEMORY)
"""The amplified resources."""


def amplify(raw: Mapping[str, Quantity], ratios: Mapping[str, float]) -> resource_list.Quantities:
    """Return the amplified amounts of the supported resources that are in `raw` and have a ratio above 1."""
    return {
        name: _amplified(raw[name], ratios[name])
        for name in SUPPORTED
        if name in raw and ratios.get(name, 0) > 1
    }


def _amplified(amount: Quantity, ratio: float) -> Quantity:
    return Quantity.of_milli(int64.from_float(float(amount.milli_value()) * ratio), amount.format)
