import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.lib import int64


@given(st.integers(min_value=-(1 << 130), max_value=1 << 130))
def test_wrapping_keeps_the_low_64_bits(number: int) -> None:
    wrapped = int64.wrap(number)
    assert int64.fits(wrapped)
    assert (wrapped - number) % (1 << 64) == 0


@given(st.integers(), st.integers().filter(bool))
def test_a_quotient_is_cut_toward_zero(dividend: int, divisor: int) -> None:
    rest = dividend - int64.quotient(dividend, divisor) * divisor
    assert abs(rest) < abs(divisor)
    assert rest == 0 or (rest < 0) == (dividend < 0)


@pytest.mark.parametrize(
    ("number", "whole"),
    [
        (1.9, 1),
        (-1.9, -1),
        (9.3e18, int64.MIN),
        (-9.3e18, int64.MIN),
        (float("nan"), int64.MIN),
        (2.0**63, int64.MIN),
        (-(2.0**63), int64.MIN),
        (2.0**62, 1 << 62),
    ],
)
def test_a_double_out_of_range_becomes_the_smallest_integer(number: float, whole: int) -> None:
    assert int64.from_float(number) == whole


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("+3", 3),
        ("-09", -9),
        ("9223372036854775807", int64.MAX),
        ("9223372036854775808", None),
        ("-9223372036854775808", int64.MIN),
        ("-9223372036854775809", None),
        ("0" * 3999 + "7", 7),
        ("0" * 4000 + "7", None),
        ("", None),
        ("-", None),
        ("1_0", None),
        (" 1", None),
        ("1.0", None),
        ("0x1", None),
        ("٣", None),
    ],
)
def test_decimal_integers_follow_go(text: str, number: int | None) -> None:
    assert int64.parse(text) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("00", 0),
        ("010", 8),
        ("0_7", 7),
        ("08", None),
        ("0x1F", 31),
        ("0x_1f", 31),
        ("-0b101", -5),
        ("0b2", None),
        ("0b0b1", None),
        ("+0o17", 15),
        ("1_000", 1000),
        ("1__0", None),
        ("_1", None),
        ("1_", None),
        ("0x", None),
        ("1e3", None),
        ("2147483647", 2147483647),
        ("2147483648", None),
        ("-2147483648", -2147483648),
        ("-2147483649", None),
        ("0" * 3999 + "7", 7),
        ("0" * 4000 + "7", None),
    ],
)
def test_integers_of_any_base_follow_go_source(text: str, number: int | None) -> None:
    assert int64.parse_any_base(text, bits=32) == number


def test_integers_have_64_bits_unless_said_otherwise() -> None:
    assert int64.parse_any_base("9223372036854775807") == int64.MAX
    assert int64.parse_any_base("9223372036854775808") is None
    assert int64.parse("32768", bits=16) is None
    assert int64.parse("-32768", bits=16) == -32768


@pytest.mark.parametrize(
    ("number", "kept"),
    [(0, 0), (-1, -1), ((1 << 31) - 1, (1 << 31) - 1), (1 << 31, -(1 << 31)), (5_000_000_000, 705_032_704)],
)
def test_a_conversion_to_32_bits_keeps_the_low_ones(number: int, kept: int) -> None:
    assert int64.wrap_32(number) == kept
