"""The number of a quantity: exact, with its format.

A quantity is held in one of two forms, and the form is visible in how it rounds and overflows. *Small* is a
64-bit integer and a power of ten; it rounds away from zero. *Big* is an unlimited decimal; it is used when
parsing or adding exceeds 64 bits, and rounds negative numbers differently. `koordpy.api.quantity` reads
quantities and is where other modules import them from. Source of all rules: Kubernetes,
`k8s.io/apimachinery/pkg/api/resource`.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf
from typing import Final

from koordpy.lib import int64


class Format(StrEnum):
    """How a quantity is written: `1k`, `1Ki` or `1e3`. UNSET is the format of one that was never set."""

    UNSET = ""
    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


NANO: Final = -9
MILLI: Final = -3

MAX_DIGITS: Final = 4000
"""The longest accepted number; Kubernetes has no limit, and stalls on `1e999999999`."""

DECIMAL_EXPONENTS: Final = {
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
BINARY_EXPONENTS: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIXES: Final = {exponent: suffix for suffix, exponent in DECIMAL_EXPONENTS.items()}
_BINARY_SUFFIXES: Final = {exponent: suffix for suffix, exponent in BINARY_EXPONENTS.items()}
_WRAPPING_SCALES: Final = frozenset((1, 2, 3, 6, 9))


class Quantity:
    """An exact amount, with its format.

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
        """Return a quantity of a whole 64-bit number."""
        return cls(int64.wrap(number), 0, format)

    @classmethod
    def of_milli(cls, number: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        """Return a quantity of a 64-bit number of thousandths."""
        return cls(int64.wrap(number), MILLI, format)

    @classmethod
    def of_scaled(cls, number: int, scale: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        """Return a quantity of a 64-bit number times ten to the power of `scale`."""
        return cls(int64.wrap(number), scale, format)

    # -- reading -----------------------------------------------------------------------------------------

    @property
    def sign(self) -> int:
        """-1, 0 or 1."""
        return (self._unscaled > 0) - (self._unscaled < 0)

    @property
    def is_zero(self) -> bool:
        """Whether the amount is 0, in any format."""
        return self._unscaled == 0

    def value(self) -> int:
        """Return the whole number, rounded up, as a 64-bit integer (see `scaled_value` for the rounding)."""
        return self.scaled_value(0)

    def milli_value(self) -> int:
        """Return the number of thousandths, rounded up, as a 64-bit integer."""
        return self.scaled_value(MILLI)

    def scaled_value(self, scale: int) -> int:
        """Return the amount divided by ten to the power of `scale`, as a 64-bit integer.

        Small form rounds away from zero. Big form rounds positive numbers up; negative ones are truncated
        toward zero (beyond 64 bits: floored) and get 1 added. What does not fit in 64 bits wraps, except that
        small form gives 0 when it is scaled by a power of ten other than 1, 2, 3, 6 or 9.
        """
        return self._big_scaled(scale) if self._big else self._small_scaled(scale)

    def _small_scaled(self, scale: int) -> int:
        power = self._scale - scale
        if power < 0:
            return divide_away_from_zero(self._unscaled, -power)[0]
        if self._unscaled == 0 or power == 0:
            return self._unscaled
        if power in _WRAPPING_SCALES:
            return int64.wrap(self._unscaled * 10**power)
        scaled = self._unscaled * 10**power
        return scaled if int64.fits(scaled) else 0

    def _big_scaled(self, scale: int) -> int:
        power = self._scale - scale
        unscaled = int64.wrap(self._unscaled)
        if power >= 0:
            return int64.wrap(unscaled * int64.from_float(_power_of_ten(power)))
        if self._unscaled < int64.MAX and -power < 19:
            divisor: int = 10**-power
            whole = int64.quotient(unscaled, divisor)
            return whole if whole * divisor == unscaled else whole + 1
        whole, rest = divmod(self._unscaled, 10**-power)
        return int64.wrap(int64.wrap(whole) + 1) if rest else int64.wrap(whole)

    def nano_value(self) -> int:
        """Return the number of billionths, without any limit. Exact: parsing allows nothing smaller."""
        power = self._scale - NANO
        return self._unscaled * 10**power if power >= 0 else divide_away_from_zero(self._unscaled, -power)[0]

    def approximate_float(self) -> float:
        """Return the amount as a double: the unscaled number times the power of ten, both as doubles."""
        try:
            base = float(self._unscaled)
        except OverflowError:
            base = inf if self._unscaled > 0 else -inf
        return base * _power_of_ten(self._scale)

    def canonical(self) -> str:
        """Format the amount, ignoring its original text.

        The largest suffix that leaves a whole number is used. BinarySI falls back to DecimalSI for fractions
        and for magnitudes below 1024; a DecimalSI number of 10^21 and more left over has no suffix at all.
        """
        if self._unscaled == 0:
            return "0"
        if self._scale == 0 and self._unscaled % 1000 and self._unscaled % 1024:
            return str(self._unscaled)  # no suffix of any format fits
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
        if self._scale == other._scale and self._unscaled and not self._big and not other._big:
            unscaled = self._unscaled + other._unscaled
            if int64.MIN <= unscaled <= int64.MAX:
                return Quantity(unscaled, self._scale, self.format)
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
        if self._scale == other._scale and self._unscaled and not self._big and not other._big:
            unscaled = self._unscaled - other._unscaled
            if int64.MIN <= unscaled <= int64.MAX and other._unscaled != int64.MIN:
                return Quantity(unscaled, self._scale, self.format)
        return self + (-other)

    def multiply(self, factor: int) -> tuple[Quantity, bool]:
        """Multiply by a 64-bit integer; also return whether the unscaled product fits 64 bits."""
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
            return divide_away_from_zero(product, -self._scale)[1]
        return int64.fits(product * 10**self._scale)

    def round_up(self, scale: int) -> tuple[Quantity, bool]:
        """Round away from zero to a multiple of ten to the power of `scale`; also return whether exact."""
        if not self._big and self._scale >= scale:
            return self, True
        if self._scale >= scale:
            return Quantity(self._unscaled * 10 ** (self._scale - scale), scale, self.format, big=True), True
        unscaled, exact = divide_away_from_zero(self._unscaled, scale - self._scale)
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
        """Return whether two quantities are the same in every part: form, format and kept text.

        `1k` and `1000` are equal but not of the same form. Koordinator compares some parsed annotations this
        way.
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


def divide_away_from_zero(number: int, power: int) -> tuple[int, bool]:
    """Divide by a power of ten, rounding away from zero; also return whether there was no remainder."""
    if power > MAX_DIGITS:
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
