"""Resource quantities: `100m`, `1.5Gi`, `2e3`.

Amounts in Kubernetes are texts. What such a text means, how it is rounded to an integer and how a result is
written again is decided in one place here, digit for digit as Kubernetes does it, since annotations, patches
and quota checks compare those texts and integers with ones that other components wrote.

Two ways to use it. Code on hot paths asks `value`, `milli_value` or `resource_value` for the integer behind a
wire value; the answers are cached by the value, and no object is made. Code that writes amounts back uses
`Quantity`, an immutable number that remembers its format and, while it is unchanged, the text it came from.

A quantity is held in one of two forms, and the form is visible in how it rounds and overflows. *Small* is
a 64-bit integer and a power of ten; it rounds away from zero. *Big* is an unlimited decimal; it takes over
where parsing or adding leaves 64 bits, and rounds negative numbers in its own way. Source of all rules:
Kubernetes, `k8s.io/apimachinery/pkg/api/resource`.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache
from math import inf, isfinite
from typing import Final, Literal

from koordpy.lib import int64

WireQuantity = str | int | float
"""An amount as it stands in a JSON document."""


class Format(StrEnum):
    """How a quantity is written: `1k`, `1Ki` or `1e3`. UNSET is the format of one that was never set."""

    UNSET = ""
    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class QuantityError(ValueError):
    """A text is no quantity. `reason` tells which part: `format`, `numeric` or `suffix`."""

    def __init__(self, text: object, reason: Literal["format", "numeric", "suffix"], expected: str) -> None:
        super().__init__(f"quantity {text!r}: {expected}")
        self.reason = reason


NANO: Final = -9
MILLI: Final = -3

_MAX_DIGITS: Final = 4000
"""Longest number that is worked with; Kubernetes has no limit, and stalls on `1e999999999`."""

_SMALL_DIGITS: Final = 18
_NUMBER: Final = re.compile(r"([+-]?)0*([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_DECIMAL_EXPONENTS: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_EXPONENTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIXES: Final = {exponent: suffix for suffix, exponent in _BINARY_EXPONENTS.items()}
_WRAPPING_SCALES: Final = frozenset((1, 2, 3, 6, 9))
_BLANKS: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)


class Quantity:
    """An amount, exact, with the format in which it is written.

    Immutable; operators give new quantities. Quantities compare by amount alone, so `1k` equals `1000`;
    `str` gives the text form. The constructor takes the unscaled integer and the power of ten that it is
    multiplied with; most callers want `parse`, `of` or `of_milli`.
    """

    __slots__ = ("_big", "_kept", "_scale", "_text", "_unscaled", "format")

    _unscaled: int
    _scale: int
    _big: bool
    _kept: str
    _text: str
    format: Format

    def __init__(
        self,
        unscaled: int = 0,
        scale: int = 0,
        format: Format = Format.UNSET,
        *,
        big: bool = False,
        kept: str = "",
    ) -> None:
        self._unscaled = unscaled
        self._scale = scale
        self._big = big
        self._kept = kept
        self._text = kept
        self.format = format

    @classmethod
    def of(cls, number: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        """Make a quantity of a whole 64-bit number."""
        return cls(int64.wrap(number), 0, format)

    @classmethod
    def of_milli(cls, number: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        """Make a quantity of a 64-bit number of thousandths."""
        return cls(int64.wrap(number), MILLI, format)

    @classmethod
    def of_scaled(cls, number: int, scale: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        """Make a quantity of a 64-bit number times ten to the power of `scale`."""
        return cls(int64.wrap(number), scale, format)

    # -- reading -----------------------------------------------------------------------------------------

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self._unscaled > 0) - (self._unscaled < 0)

    @property
    def is_zero(self) -> bool:
        """Whether the amount is 0, in whatever format."""
        return self._unscaled == 0

    def value(self) -> int:
        """Return the whole number, rounded up, as a 64-bit integer (see `scaled_value` for the rounding)."""
        return self.scaled_value(0)

    def milli_value(self) -> int:
        """Return the number of thousandths, rounded up, as a 64-bit integer."""
        return self.scaled_value(MILLI)

    def scaled_value(self, scale: int) -> int:
        """Return the amount divided by ten to the power of `scale`, as a 64-bit integer.

        Small form rounds away from zero. Big form rounds positive numbers up; negative ones are cut toward
        zero (beyond 64 bits: floored) and get 1 added. What does not fit in 64 bits wraps, except that small
        form gives 0 when it is scaled by a power of ten other than 1, 2, 3, 6 or 9.
        """
        return self._big_scaled(scale) if self._big else self._small_scaled(scale)

    def _small_scaled(self, scale: int) -> int:
        power = self._scale - scale
        if power < 0:
            return _divide_away_from_zero(self._unscaled, -power)[0]
        if self._unscaled == 0 or power == 0:
            return self._unscaled
        if power in _WRAPPING_SCALES:
            return 0 if self._unscaled == int64.MIN else int64.wrap(self._unscaled * 10**power)
        scaled = self._unscaled * 10**power
        return scaled if int64.fits(scaled) else 0

    def _big_scaled(self, scale: int) -> int:
        power = self._scale - scale
        unscaled = int64.wrap(self._unscaled)
        if power >= 0:
            return unscaled if power == 0 else int64.wrap(unscaled * int64.from_float(_power_of_ten(power)))
        if self._unscaled < int64.MAX and -power < 19:
            divisor: int = 10**-power
            whole = int64.quotient(unscaled, divisor)
            return whole if whole * divisor == unscaled else whole + 1
        whole, rest = divmod(self._unscaled, 10**-power)
        return int64.wrap(int64.wrap(whole) + 1) if rest else int64.wrap(whole)

    def nano_value(self) -> int:
        """Return the number of billionths, without any limit. Exact: nothing that is parsed is smaller."""
        power = self._scale - NANO
        return self._unscaled * 10**power if power >= 0 else _divide_away_from_zero(self._unscaled, -power)[0]

    def approximate_float(self) -> float:
        """Return the amount as a double: the unscaled number times the power of ten, both as doubles."""
        try:
            base = float(self._unscaled)
        except OverflowError:
            base = inf if self._unscaled > 0 else -inf
        return base if self._scale == 0 else base * _power_of_ten(self._scale)

    def canonical(self) -> str:
        """Write the amount in its format, ignoring the text it came from.

        The largest suffix is taken that leaves a whole number. BinarySI falls back to DecimalSI for fractions
        and for magnitudes below 1024; a DecimalSI number of 10^21 and more left over has no suffix at all.
        """
        if self._unscaled == 0:
            return "0"
        if self.format is Format.BINARY_SI and (whole := self._whole()) is not None and abs(whole) >= 1024:
            return self._binary_text(whole)
        mantissa, exponent = _strip_tens(self._unscaled, self._scale)
        mantissa *= 10 ** (exponent % 3)
        exponent -= exponent % 3
        if self.format is Format.BINARY_SI or self.format is Format.DECIMAL_SI:
            return f"{mantissa}{_DECIMAL_SUFFIXES.get(exponent, '')}"
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)

    def _whole(self) -> int | None:
        """The amount if it has no fraction."""
        if self._scale >= 0:
            return int(self._unscaled * 10**self._scale)
        divisor: int = 10**-self._scale
        return None if self._unscaled % divisor else self._unscaled // divisor

    def _binary_text(self, whole: int) -> str:
        exponent = 0
        # The smallest 64-bit integer has no 64-bit magnitude, so small form never shortens it.
        if self._big or whole != int64.MIN:
            while whole % 1024 == 0:
                whole //= 1024
                exponent += 10
        return f"{whole}{_BINARY_SUFFIXES.get(exponent, '')}"

    def __str__(self) -> str:
        text = self._text
        if not text:
            text = self._text = self.canonical()
        return text

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    # -- arithmetic --------------------------------------------------------------------------------------

    def __add__(self, other: Quantity) -> Quantity:
        """Sum up. The format is the left one's, or the right one's if the left amount is 0."""
        format = other.format if self._unscaled == 0 else self.format
        if not self._big and not other._big:
            if other._unscaled == 0:
                return Quantity(self._unscaled, self._scale, format)
            if self._unscaled == 0:
                return Quantity(other._unscaled, other._scale, format)
        unscaled, scale = self._aligned_sum(other)
        if self._big or other._big:
            return Quantity(unscaled, scale, format, big=True)
        fits = int64.fits(unscaled) and int64.fits(self._unscaled * 10 ** (self._scale - scale))
        fits = fits and int64.fits(other._unscaled * 10 ** (other._scale - scale))
        return Quantity(unscaled, scale, format, big=not fits)

    def _aligned_sum(self, other: Quantity) -> tuple[int, int]:
        if self._scale == other._scale:
            return self._unscaled + other._unscaled, self._scale
        if self._scale > other._scale:
            return self._unscaled * 10 ** (self._scale - other._scale) + other._unscaled, other._scale
        return self._unscaled + other._unscaled * 10 ** (other._scale - self._scale), self._scale

    def __neg__(self) -> Quantity:
        unscaled = -self._unscaled if self._big else int64.wrap(-self._unscaled)
        return Quantity(unscaled, self._scale, self.format, big=self._big)

    def __sub__(self, other: Quantity) -> Quantity:
        """Subtract. The format is the left one's, or the right one's if the left amount is 0."""
        return self + (-other)

    def multiply(self, factor: int) -> tuple[Quantity, bool]:
        """Multiply with a 64-bit integer; also tell whether the unscaled product fits 64 bits."""
        if not self._big:
            if self._unscaled == 0:
                return Quantity(0, self._scale, self.format), True
            if factor == 0:
                return Quantity(0, 0, self.format), True
            product = self._unscaled * factor
            if self._small_holds(product, factor):
                return Quantity(product, self._scale, self.format), True
        product = self._unscaled * factor
        return Quantity(product, self._scale, self.format, big=True), int64.fits(product)

    def _small_holds(self, product: int, factor: int) -> bool:
        """Whether a product stays in small form: it fits 64 bits at its own scale and at scale 0, exactly."""
        if not int64.fits(product) or (
            int64.MIN in (self._unscaled, factor) and 1 not in (self._unscaled, factor)
        ):
            return False
        if self._scale < 0:
            return _divide_away_from_zero(product, -self._scale)[1]
        return self._scale == 0 or int64.fits(product * 10**self._scale)

    def round_up(self, scale: int) -> tuple[Quantity, bool]:
        """Round away from zero to a multiple of ten to the power of `scale`; tell if nothing was lost."""
        if not self._big and self._scale >= scale:
            return self, True
        if self._scale >= scale:
            return Quantity(self._unscaled * 10 ** (self._scale - scale), scale, self.format, big=True), True
        unscaled, exact = _divide_away_from_zero(self._unscaled, scale - self._scale)
        return Quantity(unscaled, scale, self.format, big=self._big), exact

    # -- comparison --------------------------------------------------------------------------------------

    def compare(self, other: Quantity) -> int:
        """Return -1, 0 or 1 as this amount is less than, equal to or greater than the other, exactly."""
        left: int = self._unscaled
        right: int = other._unscaled
        if self._scale > other._scale:
            left *= 10 ** (self._scale - other._scale)
        elif self._scale < other._scale:
            right *= 10 ** (other._scale - self._scale)
        return (left > right) - (left < right)

    def has_same_form(self, other: Quantity) -> bool:
        """Tell whether two quantities are the same in every part: form, format and kept text.

        `1k` and `1000` are equal but not of the same form. Koordinator compares some parsed annotations so.
        """
        return (
            self._unscaled == other._unscaled
            and self._scale == other._scale
            and self._kept == other._kept
            and self._big == other._big
            and self.format is other.format
        )

    def __eq__(self, other: object) -> bool:
        return self.compare(other) == 0 if isinstance(other, Quantity) else NotImplemented

    def __hash__(self) -> int:
        return hash(_strip_tens(self._unscaled, self._scale) if self._unscaled else 0)

    def __lt__(self, other: Quantity) -> bool:
        return self.compare(other) < 0

    def __le__(self, other: Quantity) -> bool:
        return self.compare(other) <= 0

    def __gt__(self, other: Quantity) -> bool:
        return self.compare(other) > 0

    def __ge__(self, other: Quantity) -> bool:
        return self.compare(other) >= 0


UNSET: Final = Quantity()
"""The quantity of a name that is missing from a resource list: 0, without a format."""

ZERO: Final = Quantity(0, 0, Format.DECIMAL_SI)


@lru_cache(maxsize=1 << 16)
def parse(text: str) -> Quantity:
    """Read a quantity from its text.

    Blanks are not allowed. Missing digits count as 0 (`.5`, `1.`, even `m`). Amounts other than 0 that are
    smaller than a billionth are rounded up to one; BinarySI amounts are capped to the largest 64-bit integer.
    The text is kept, and written again verbatim, where it is close enough to the canonical form.

    Raises:
        QuantityError: the text is no quantity, or a number of more than 4000 digits.
    """
    if text == "0":
        return Quantity(0, 0, Format.DECIMAL_SI, kept="0")
    parts = _NUMBER.fullmatch(text) if len(text) <= _MAX_DIGITS else None
    if not text or parts is None:
        raise QuantityError(
            text, "format", "expected digits, an optional point and a suffix such as m, k, Mi or e3"
        )
    sign, digits, point, decimals, suffix = parts.groups()
    exponent, format = _interpret_suffix(text, suffix)
    if not digits and point is None and not suffix:
        return Quantity(0, 0, Format.DECIMAL_SI)
    number = (digits or "0") + (decimals or "")
    unscaled = int(number)
    if len(number) + exponent > _MAX_DIGITS and unscaled:
        raise QuantityError(text, "numeric", f"expected a number of at most {_MAX_DIGITS} digits")
    small = _parse_small(text, number, unscaled, exponent, format, len(decimals or ""))
    if small is not None:
        return small
    if not decimals and not text.lstrip("+-")[:1].isdecimal():
        raise QuantityError(text, "numeric", "expected a digit before the suffix")
    return _parse_big(-unscaled if sign == "-" else unscaled, exponent, format, len(decimals or ""))


def _interpret_suffix(text: str, suffix: str) -> tuple[int, Format]:
    """The exponent that a suffix stands for (of two in BinarySI, else of ten), and the format it implies."""
    if suffix in _DECIMAL_EXPONENTS:
        return _DECIMAL_EXPONENTS[suffix], Format.DECIMAL_SI
    if suffix in _BINARY_EXPONENTS:
        return _BINARY_EXPONENTS[suffix], Format.BINARY_SI
    if (
        suffix[0] in "eE"
        and re.fullmatch(r"[-+]?[0-9]+", suffix[1:])
        and int64.fits(exponent := int(suffix[1:]))
    ):
        # Kubernetes keeps the low 32 bits of an exponent.
        return int64.wrap(exponent << 32) >> 32, Format.DECIMAL_EXPONENT
    raise QuantityError(
        text, "suffix", "expected one of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or e and digits"
    )


def _parse_small(
    text: str, number: str, unscaled: int, exponent: int, format: Format, decimals: int
) -> Quantity | None:
    """Read a number into small form, or return None if it needs the big one."""
    signed = -unscaled if text[0] == "-" else unscaled
    if format is Format.BINARY_SI:
        # An estimate of the decimal digits of the product, on the safe side.
        if decimals or len(number) > 14 - exponent * 3 // 10 or not int64.fits(unscaled << exponent):
            return None
        return Quantity(signed << exponent, 0, format, kept=text if unscaled & 0x07 else "")
    scale = exponent - decimals
    if len(number) > _SMALL_DIGITS or scale < NANO:
        return None
    keeps = scale % 3 == 0 and not number.endswith("000") and number[0] != "0"
    return Quantity(
        signed, scale if unscaled else min(scale, _MAX_DIGITS), format, kept=text if keeps else ""
    )


def _parse_big(signed: int, exponent: int, format: Format, decimals: int) -> Quantity:
    """Make the big form: not below a billionth, in BinarySI not above the largest 64-bit integer."""
    scale = -decimals
    if format is Format.BINARY_SI:
        signed <<= exponent
    else:
        scale += exponent
    if signed == 0:
        return Quantity(0, max(-_MAX_DIGITS, min(scale, _MAX_DIGITS)), format, big=True)
    unscaled = (
        _divide_away_from_zero(signed, NANO - scale)[0] if scale < NANO else signed * 10 ** (scale - NANO)
    )
    if format is Format.BINARY_SI and abs(unscaled) > int64.MAX * 10**9:
        return Quantity(int64.MAX if signed > 0 else -int64.MAX, 0, format, big=True)
    if format is Format.BINARY_SI and abs(unscaled) < 10**9:
        format = Format.DECIMAL_SI
    return Quantity(unscaled, NANO, format, big=True)


def parse_json(raw: str) -> Quantity:
    """Read a quantity from the JSON text of a field: a string (blanks are trimmed), a number or null.

    Escapes in a string are not interpreted, as in Kubernetes. null gives `UNSET`.
    """
    if raw == "null":
        return UNSET
    if len(raw) >= 2 and raw[0] == raw[-1] == '"':
        raw = raw[1:-1]
    return parse(raw.strip(_BLANKS))


def from_wire(quantity: WireQuantity | None) -> Quantity:
    """Read a quantity from a decoded JSON value; None gives `UNSET`. Raises QuantityError."""
    if quantity is None:
        return UNSET
    if isinstance(quantity, str):
        return parse(quantity.strip(_BLANKS))
    if isinstance(quantity, bool) or not isfinite(quantity):
        raise QuantityError(quantity, "format", "expected a text or a number")
    return parse(str(quantity))


@lru_cache(maxsize=1 << 16)
def value(quantity: WireQuantity) -> int:
    """Return the whole number behind a wire value, rounded up, 64 bits. Raises QuantityError."""
    return from_wire(quantity).value()


@lru_cache(maxsize=1 << 16)
def milli_value(quantity: WireQuantity) -> int:
    """Return the thousandths behind a wire value, rounded up, 64 bits. Raises QuantityError."""
    return from_wire(quantity).milli_value()


@lru_cache(maxsize=1 << 16)
def nano_value(quantity: WireQuantity) -> int:
    """Return the billionths behind a wire value, exactly and without limit. Raises QuantityError."""
    return from_wire(quantity).nano_value()


def resource_value(name: str, quantity: WireQuantity) -> int:
    """Return an amount in the unit in which its resource is counted: cpu in thousandths, others whole.

    Source: Koordinator, `pkg/util/resource.go` and the quota plugin's `getQuantityValue`.
    """
    return milli_value(quantity) if name == "cpu" else value(quantity)


def _divide_away_from_zero(number: int, power: int) -> tuple[int, bool]:
    """Divide by ten to a power, rounding away from zero; tell whether there was no rest."""
    if power > _MAX_DIGITS:
        return (number > 0) - (number < 0), number == 0
    whole, rest = divmod(abs(number), 10**power)
    whole += rest != 0
    return (-whole if number < 0 else whole), rest == 0


def _strip_tens(number: int, exponent: int) -> tuple[int, int]:
    """Move all factors of ten of a number other than 0 into the exponent."""
    while number % 10 == 0:
        number //= 10
        exponent += 1
    return number, exponent


def _power_of_ten(exponent: int) -> float:
    """Ten to a power as a double, composed of two table entries as in Go's math.Pow10 (last bits differ)."""
    if exponent > 308:
        return inf
    if exponent < -323:
        return 0.0
    high, low = divmod(abs(exponent), 32)
    if exponent < 0:
        return float(f"1e-{32 * high}") / float(f"1e{low}")
    return float(f"1e{32 * high}") * float(f"1e{low}")
