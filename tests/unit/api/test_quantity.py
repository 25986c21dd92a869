from fractions import Fraction
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import quantity
from koordpy.api.quantity import MILLI, NANO, UNSET, ZERO, Format, Quantity, QuantityError, parse, parse_json
from koordpy.lib import int64

UNITS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
    "e-3": Fraction(1, 1000),
    "e0": Fraction(1),
    "E+5": Fraction(10**5),
}


@st.composite
def written(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A text and its amount, within the range that every format represents exactly."""
    unit = draw(st.sampled_from(sorted(UNITS)))
    places = 0 if unit in ("n", "u", "m", "e-3") else draw(st.integers(0, 3))
    mantissa = draw(st.integers(-(10**9), 10**9))
    text = f"{abs(mantissa):0{places + 1}d}"
    text = f"{text[:-places]}.{text[-places:]}" if places else text
    amount = Fraction(mantissa, 10**places) * UNITS[unit]
    if unit.endswith("i") and abs(amount) > int64.MAX:
        amount = Fraction(int64.MAX if amount > 0 else -int64.MAX)
    nanos = amount * 10**9
    if nanos.denominator != 1:
        whole = abs(nanos).__ceil__()
        amount = Fraction(whole if amount > 0 else -whole, 10**9)
    return f"{'-' if mantissa < 0 else ''}{text}{unit}", amount


def fraction(amount: Quantity) -> Fraction:
    """The exact amount, by way of its text."""
    text = amount.canonical()
    digits = text.lstrip("-")
    end = next((i for i, c in enumerate(digits) if c not in "0123456789."), len(digits))
    number, unit = digits[:end], digits[end:]
    factor = Fraction(10) ** int(unit[1:]) if unit[:1] == "e" else UNITS[unit]
    return Fraction(number) * factor * (-1 if text.startswith("-") else 1)


@given(written())
def test_a_text_stands_for_digits_times_unit(case: tuple[str, Fraction]) -> None:
    text, amount = case
    if abs(amount) < 10**21 or parse(text).format is not Format.DECIMAL_SI:
        assert fraction(parse(text)) == amount


@given(written())
def test_written_again_it_is_the_same_amount(case: tuple[str, Fraction]) -> None:
    amount = parse(case[0])
    if abs(case[1]) < 10**21:
        assert parse(str(amount)) == amount
        assert parse(amount.canonical()) == amount


@given(written())
def test_the_canonical_form_of_a_canonical_form_is_itself(case: tuple[str, Fraction]) -> None:
    canonical = parse(case[0]).canonical()
    assert parse(canonical).canonical() == canonical


@given(written(), written())
def test_order_is_the_order_of_the_numbers(one: tuple[str, Fraction], other: tuple[str, Fraction]) -> None:
    left, right = parse(one[0]), parse(other[0])
    assert left.compare(right) == (one[1] > other[1]) - (one[1] < other[1])
    assert (left == right) == (one[1] == other[1])
    assert (left < right) == (one[1] < other[1])
    assert (left > right) == (one[1] > other[1])
    assert left != right or hash(left) == hash(right)


def test_equal_amounts_are_in_order_both_ways() -> None:
    left, right = parse("1k"), parse("1000")
    assert left <= right <= left
    assert left >= right >= left
    assert not left < right
    assert not left > right
    assert not parse("1001") <= right
    assert not parse("999") >= right
    assert parse("999") <= right <= parse("1001")


def test_hashes_distinguish_amounts() -> None:
    assert len({hash(parse(str(amount))) for amount in range(1, 100)}) > 50


@given(written(), written())
def test_sums_and_differences_are_exact(one: tuple[str, Fraction], other: tuple[str, Fraction]) -> None:
    left, right = parse(one[0]), parse(other[0])
    assert Fraction((left + right).nano_value(), 10**9) == one[1] + other[1]
    assert Fraction((left - right).nano_value(), 10**9) == one[1] - other[1]


@given(written(), written())
def test_a_sum_takes_the_format_of_its_left_operand_unless_that_is_zero(
    one: tuple[str, Fraction], other: tuple[str, Fraction]
) -> None:
    left, right = parse(one[0]), parse(other[0])
    assert (left + right).format is (right.format if left.is_zero else left.format)


@given(written())
def test_positive_amounts_are_rounded_up(case: tuple[str, Fraction]) -> None:
    text, amount = case
    if 0 <= amount < 10**15:
        assert quantity.value(text) == amount.__ceil__()
        assert quantity.milli_value(text) == (amount * 1000).__ceil__()
        assert quantity.nano_value(text) == amount * 10**9


@given(st.integers(int64.MIN, int64.MAX), st.sampled_from(Format))
def test_whole_numbers_keep_their_value_in_every_format(number: int, format: Format) -> None:
    assert Quantity.of(number, format).value() == number
    assert Quantity.of_milli(number, format).milli_value() == number


@given(st.text(alphabet="+-.0123456789eEinumkKMGTP ", max_size=12))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        format = parse(text).format
    except QuantityError:
        format = None
    assert format is None or format in tuple(Format)


@pytest.mark.parametrize(
    ("text", "again"),
    [
        ("0", "0"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("0.5", "500m"),
        ("1.5", "1500m"),
        ("1.500", "1.500"),
        ("+5", "+5"),
        ("05", "05"),
        ("1000m", "1"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.1Gi", "107374182400m"),
        ("512Ki", "512Ki"),
        ("1e9", "1e9"),
        ("1000e2", "100e3"),
        ("0.0000000001", "1n"),
        ("9999999999999999999Ei", "9223372036854775807"),
        ("1000E", "1"),
        ("m", "0"),
        ("-", "0"),
    ],
)
def test_texts_are_kept_or_written_canonically(text: str, again: str) -> None:
    assert str(parse(text)) == again


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("1Ki", Quantity(1024, 0, Format.BINARY_SI, kept="1Ki")),
        ("-9Ki", Quantity(-9216, 0, Format.BINARY_SI, kept="-9Ki")),
        ("8Ki", Quantity(8192, 0, Format.BINARY_SI)),
        ("99Ti", Quantity(99 << 40, 0, Format.BINARY_SI, kept="99Ti")),
        ("100Ti", Quantity((100 << 40) * 10**9, NANO, Format.BINARY_SI, big=True)),
        ("7Ei", Quantity((7 << 60) * 10**9, NANO, Format.BINARY_SI, big=True)),
        ("8Ei", Quantity(int64.MAX, 0, Format.BINARY_SI, big=True)),
        ("-9Ei", Quantity(-int64.MAX, 0, Format.BINARY_SI, big=True)),
        (
            "9007199254740991.9990234375Ki",  # exactly the largest 64-bit integer
            Quantity(int64.MAX * 10**9, NANO, Format.BINARY_SI, big=True),
        ),
        ("0.0Ki", Quantity(0, -1, Format.BINARY_SI, big=True)),
        ("0.0009765625Ki", Quantity(10**9, NANO, Format.BINARY_SI, big=True)),
        ("0.0001Ki", Quantity(102_400_000, NANO, Format.DECIMAL_SI, big=True)),
        ("0.002Ki", Quantity(2_048_000_000, NANO, Format.BINARY_SI, big=True)),
        ("1n", Quantity(1, NANO, Format.DECIMAL_SI, kept="1n")),
        ("123456789012345678", Quantity(123456789012345678, 0, Format.DECIMAL_SI, kept="123456789012345678")),
        ("1234567890123456789", Quantity(1234567890123456789 * 10**9, NANO, Format.DECIMAL_SI, big=True)),
        ("0e5000", Quantity(0, 4000, Format.DECIMAL_EXPONENT)),
    ],
)
def test_amounts_are_small_where_their_texts_are_short(text: str, read: Quantity) -> None:
    assert parse(text).has_same_form(read)


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Quantity.of(1024, Format.BINARY_SI), "1Ki"),
        (Quantity.of(-1024, Format.BINARY_SI), "-1Ki"),
        (Quantity.of(1023, Format.BINARY_SI), "1023"),
        (Quantity.of_scaled(2048, 3, Format.BINARY_SI), "2000Ki"),
    ],
)
def test_binary_amounts_are_written_with_their_largest_suffix(amount: Quantity, text: str) -> None:
    assert amount.canonical() == text


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "1e", "1e+", "1Ki3", "1m-3", "Ei", ".e-14", "1x", "x", "1.2.3", "１"]
)
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(QuantityError):
        parse(text)


@pytest.mark.parametrize("text", ["1e999999999", "1" * 5000, "1234567890123456789e100000"])
def test_hostile_sizes_are_refused_at_once(text: str) -> None:
    with pytest.raises(QuantityError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "reason", "expected"),
    [
        ("x", "format", "expected digits, an optional point and a suffix such as m, k, Mi or e3"),
        (
            "1mm",
            "suffix",
            "expected one of n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei or e and digits",
        ),
        ("Ei", "numeric", "expected a digit before the suffix"),
        ("1e9999", "numeric", "expected a number of at most 4000 digits"),
    ],
)
def test_a_refusal_names_the_text_and_what_was_expected(text: str, reason: str, expected: str) -> None:
    with pytest.raises(QuantityError) as refused:
        parse(text)
    assert str(refused.value) == f"quantity '{text}': {expected}"
    assert refused.value.reason == reason


def test_a_long_text_is_cut_where_it_is_refused() -> None:
    longest = "x" * 198  # with its quotes 200 characters
    with pytest.raises(QuantityError, match=f"^quantity '{longest}': expected"):
        parse(longest)
    with pytest.raises(QuantityError, match=rf"^quantity '{longest}x\.\.\. \(201 characters\): expected"):
        parse(f"{longest}x")


def test_a_json_text_is_read_as_kubernetes_does() -> None:
    assert parse_json("null") is UNSET
    assert parse_json('" 1Gi\u2003"') == parse("1Gi")
    assert parse_json("1.5") == parse("1500m")
    with pytest.raises(QuantityError, match=r"^quantity '': "):
        parse_json('""')
    with pytest.raises(QuantityError):
        parse_json('"\x1f1"')  # a separator to Python, no blank to Go


def test_a_vanishing_amount_is_one_billionth() -> None:
    assert str(parse("1e-999999999")) == "1e-9"


@pytest.mark.parametrize(
    ("text", "whole"),
    [("-1500m", -2), ("-1.1Ki", -1125), ("100Ti", 100 << 40), ("-8Pi", -4611686017), ("1000E", 0)],
)
def test_the_form_decides_how_negatives_and_overflows_are_rounded(text: str, whole: int) -> None:
    assert quantity.value(text) == whole


@pytest.mark.parametrize(("wire", "milli"), [(2, 2000), (0.5, 500), ("250m", 250), (" 1 ", 1000), (1e22, 0)])
def test_numbers_of_a_document_are_read_like_texts(wire: str | float, milli: int) -> None:
    assert quantity.milli_value(wire) == milli


def test_only_what_go_takes_for_blanks_is_trimmed() -> None:
    assert quantity.from_wire("\x85 1\u3000") == parse("1")
    with pytest.raises(QuantityError):
        quantity.from_wire("\x1f1")


@pytest.mark.parametrize("wire", [True, float("inf"), float("nan")])
def test_other_values_of_a_document_are_refused(wire: float) -> None:
    with pytest.raises(QuantityError) as refused:
        quantity.from_wire(wire)
    assert str(refused.value) == f"quantity {wire!r}: expected a text or a number"
    assert refused.value.reason == "format"


def test_a_missing_amount_takes_the_format_of_what_is_added() -> None:
    assert str(UNSET + parse("1Gi")) == "1Gi"
    assert str(UNSET) == "0"
    assert str(Quantity.of(1500, Format.UNSET)) == "1500"
    assert str(Quantity.of(1000, Format.UNSET)) == "1e3"


def test_cpu_is_counted_in_milli_and_everything_else_whole() -> None:
    assert quantity.resource_value("cpu", "1") == 1000
    assert quantity.resource_value("kubernetes.io/batch-cpu", "1k") == 1000
    assert quantity.resource_value("memory", "1Ki") == 1024


def test_what_is_made_of_an_integer_is_in_decimal_unless_said_otherwise() -> None:
    for made in (Quantity.of(2048), Quantity.of_milli(2048), Quantity.of_scaled(2048, 3)):
        assert made.format is Format.DECIMAL_SI
    for made in (
        Quantity.of(2048, Format.BINARY_SI),
        Quantity.of_milli(2048, Format.BINARY_SI),
        Quantity.of_scaled(2048, 3, Format.BINARY_SI),
    ):
        assert made.format is Format.BINARY_SI
    assert str(Quantity.of(2048, Format.BINARY_SI)) == "2Ki"
    assert repr(Quantity.of(2048, Format.BINARY_SI)) == "Quantity('2Ki')"


@pytest.mark.parametrize(("number", "nanos"), [(1500, 2), (-1500, -2), (2000, 2), (0, 0)])
def test_billionths_are_rounded_away_from_zero(number: int, nanos: int) -> None:
    assert Quantity.of_scaled(number, -12).nano_value() == nanos


@pytest.mark.parametrize("exponent", [*range(-300, 308, 7), -323, -33, -32, -31, -1, 31, 32, 33, 308])
def test_a_double_is_the_number_times_the_power_of_ten(exponent: int) -> None:
    assert Quantity.of_scaled(1, exponent).approximate_float() == pytest.approx(
        float(f"1e{exponent}"), rel=1e-15, abs=0
    )
    assert Quantity.of_scaled(-3, exponent).approximate_float() == pytest.approx(
        -3 * float(f"1e{exponent}"), rel=1e-15, abs=0
    )


def test_a_double_out_of_range_is_infinite_or_zero() -> None:
    assert Quantity.of_scaled(7, 0).approximate_float() == 7.0
    assert Quantity.of_scaled(1, 309).approximate_float() == inf
    assert Quantity.of_scaled(1, -400).approximate_float() == 0.0
    large = parse("1" + "0" * 400)
    assert large.approximate_float() == inf
    assert (ZERO - large).approximate_float() == -inf


BIG = parse("1.00000000001")
"""One and a billionth, in big form."""


@pytest.mark.parametrize(
    ("amount", "whole"),
    [
        (Quantity.of_scaled(int64.MIN, 3), 0),
        (Quantity.of_scaled(0, 3), 0),
        (Quantity(5, big=True), 5),
        (Quantity(5, 3, big=True), 5000),
        (Quantity(-5, -18, big=True), 1),
        (Quantity(-5, -19, big=True), 0),
        (Quantity(-5, -20, big=True), 0),
        (Quantity(5, -20, big=True), 1),
        (Quantity(3, -5000), 1),
        (Quantity(1, -5000), 1),
        (Quantity(-3, -5000), -1),
        (Quantity(0, -5000), 0),
    ],
)
def test_whole_numbers_of_amounts_at_the_limits(amount: Quantity, whole: int) -> None:
    assert amount.value() == whole


MOST = 9 * 10**18
"""A number with few digits that just fits 64 bits."""


@pytest.mark.parametrize(
    ("one", "other", "total"),
    [
        (Quantity(5, 3), Quantity(0), Quantity(5, 3)),
        (Quantity(1), Quantity(2), Quantity(3)),
        (Quantity(2, 3), Quantity(1), Quantity(2001)),
        (Quantity(int64.MAX), Quantity(1), Quantity(int64.MAX + 1, big=True)),
        (Quantity(9 * 10**17, 1), Quantity(5), Quantity(MOST + 5)),
        # What is aligned does not fit, though the sum does.
        (Quantity(10**18, 1), Quantity(-MOST), Quantity(10**18, big=True)),
        (Quantity(10**17, 2), Quantity(-MOST), Quantity(10**18, big=True)),
        (Quantity(10**17, -1), Quantity(-MOST, MILLI), Quantity(10**18, MILLI, big=True)),
        (Quantity(1, big=True), Quantity(0), Quantity(1, big=True)),
        (Quantity(1, big=True), Quantity(2), Quantity(3, big=True)),
        (Quantity(0, big=True), Quantity(2), Quantity(2, big=True)),
    ],
)
def test_a_sum_is_small_where_it_and_its_parts_fit(one: Quantity, other: Quantity, total: Quantity) -> None:
    assert (one + other).has_same_form(total)
    assert (other + one).has_same_form(total)


def test_an_amount_equals_no_text() -> None:
    assert parse("1") != "1"


def test_what_vanishes_beside_the_unit_is_rounded_with_a_loss() -> None:
    assert Quantity(1, -5000).round_up(0)[1] is False
    assert Quantity(0, -5000).round_up(0)[1] is True


def test_a_negated_amount_keeps_its_form() -> None:
    assert (-BIG).value() == 0  # small form would return -2
    assert (-parse("1.1")).value() == -2
    smallest = Quantity.of(int64.MIN)
    assert (-smallest).has_same_form(smallest)  # it wraps


@pytest.mark.parametrize(
    ("amount", "factor", "product", "fits"),
    [
        (Quantity(5), 3, Quantity(15), True),
        (Quantity(0, MILLI, Format.BINARY_SI), 5, Quantity(0, MILLI, Format.BINARY_SI), True),
        (Quantity(5, MILLI, Format.BINARY_SI), 0, Quantity(0, 0, Format.BINARY_SI), True),
        (Quantity(1), 0, Quantity(0), True),
        (Quantity(1, 0, Format.DECIMAL_SI), 7, Quantity(7, 0, Format.DECIMAL_SI), True),
        (Quantity(int64.MIN), 1, Quantity(int64.MIN), True),
        (Quantity(1), int64.MIN, Quantity(int64.MIN), True),
        (Quantity(int64.MAX), 2, Quantity(2 * int64.MAX, big=True), False),
        (Quantity(int64.MIN), -1, Quantity(-int64.MIN, big=True), False),
        (Quantity(1500, MILLI), 2, Quantity(3000, MILLI), True),
        (Quantity(int64.MAX, MILLI), 1000, Quantity(int64.MAX * 1000, MILLI, big=True), False),
        (Quantity(1500, MILLI), 1, Quantity(1500, MILLI, big=True), True),
        (Quantity(5, 3), 2, Quantity(10, 3), True),
        (Quantity(9 * 10**14, 3), 10, Quantity(9 * 10**15, 3), True),
        (Quantity(10**15, 3), 10, Quantity(10**16, 3, big=True), True),
        (BIG, 2, Quantity(2 * (10**9 + 1), NANO, Format.DECIMAL_SI, big=True), True),
        (Quantity(0, MILLI, big=True), 2, Quantity(0, MILLI, big=True), True),
    ],
)
def test_a_product_is_small_where_it_is_whole_and_fits(
    amount: Quantity, factor: int, product: Quantity, fits: bool
) -> None:
    found, held = amount.multiply(factor)
    assert found.has_same_form(product)
    assert held is fits


@pytest.mark.parametrize(
    ("amount", "scale", "rounded", "exact"),
    [
        (Quantity(1500, MILLI, Format.BINARY_SI), 0, Quantity(2, 0, Format.BINARY_SI), False),
        (Quantity(-1500, MILLI), 0, Quantity(-2), False),
        (Quantity(2000, MILLI), 0, Quantity(2), True),
        (parse("2"), 0, parse("2"), True),
        (parse("2k"), 0, parse("2k"), True),
        (Quantity(2, 3, Format.BINARY_SI, big=True), 0, Quantity(2000, 0, Format.BINARY_SI, big=True), True),
        (BIG, MILLI, Quantity(1001, MILLI, Format.DECIMAL_SI, big=True), False),
        (BIG, NANO, Quantity(10**9 + 1, NANO, Format.DECIMAL_SI, big=True), True),
    ],
)
def test_rounding_keeps_form_and_format(amount: Quantity, scale: int, rounded: Quantity, exact: bool) -> None:
    found, lost_nothing = amount.round_up(scale)
    assert found.has_same_form(rounded)
    assert lost_nothing is exact


@pytest.mark.parametrize(
    "other",
    [
        parse("1001"),
        parse("1000.0"),
        Quantity(1000, 0, Format.DECIMAL_SI, big=True),
        Quantity(1, 3, Format.DECIMAL_SI),
        Quantity(1000, 0, Format.BINARY_SI),
        Quantity(1000, 0, Format.DECIMAL_SI, kept="1e3"),
    ],
)
def test_two_amounts_are_of_the_same_form_if_all_their_parts_are(other: Quantity) -> None:
    assert not Quantity(1000, 0, Format.DECIMAL_SI).has_same_form(other)
    assert Quantity(1000, 0, Format.DECIMAL_SI).has_same_form(Quantity.of(1000))
    assert other.has_same_form(other)
