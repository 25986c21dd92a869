"""Kubernetes' IntOrString: a number, or a percentage of some total as text (`25%`).

Source: Kubernetes, `k8s.io/apimachinery/pkg/util/intstr`.
"""

import re
from typing import Annotated

from pydantic import Field

from koordpy.lib import int64

IntOrString = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)] | str
"""A field of a configuration that is a 32-bit number or text."""

_DECIMAL = re.compile(r"[+-]?[0-9]+", re.ASCII)


def percentage(text: str) -> int:
    """Return the number in `N%`. Raises ValueError with Kubernetes' text."""
    number = text.removesuffix("%")
    if number == text:
        raise ValueError("invalid value for IntOrString: invalid type: string is not a percentage")
    if not _DECIMAL.fullmatch(number):
        raise ValueError(_unparsable(text, number, "invalid syntax"))
    if not int64.fits(int(number)):
        raise ValueError(_unparsable(text, number, "value out of range"))
    return int(number)


def scaled(value: int | str, total: int, *, round_up: bool) -> int:
    """Return a number as it is, and a percentage as its part of a total, rounded up or down.

    Raises ValueError for text that is not a percentage.
    """
    if isinstance(value, int):
        return value
    product = percentage(value) * total
    return -(-product // 100) if round_up else product // 100


def _unparsable(text: str, number: str, reason: str) -> str:
    problem = f'strconv.Atoi: parsing "{number}": {reason}'
    return f'invalid value for IntOrString: invalid value "{text}": {problem}'
