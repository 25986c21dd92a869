"""Numbers and booleans in Go's text forms."""

import math

import pytest

from koordpy.lib.go_number import fixed, general, parse_bool, parse_float


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1.0),
        ("+1.5", 1.5),
        ("-.5", -0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("1E-2", 0.01),
        ("0x1p-2", 0.25),
        ("0X1.8p1", 3.0),
        ("inf", math.inf),
        ("-Infinity", -math.inf),
        ("1e-400", 0.0),
        ("1_0", 10.0),
        ("1_0.5_0e1_0", 1.05e11),
        (".5e1", 5.0),
        ("0X_1.8P-1", 0.75),
    ],
)
def test_doubles_are_read(text: str, expected: float) -> None:
    assert parse_float(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", " 1", "1 ", "1,5", "1e", "e1", ".", "abc", "٣", "+nan"),
        *("1__0", "_1", "1_", "1_.5", "1._5", "1e_5", "0x_.8p1"),
        *("0x", "0x1", "1e400", "0x1p5000", "1" * 5000),
    ],
)
def test_other_texts_are_no_doubles(text: str) -> None:
    assert parse_float(text) is None


def test_not_a_number_is_read() -> None:
    found = parse_float("NaN")
    assert found is not None
    assert math.isnan(found)


@pytest.mark.parametrize("text", ["1", "t", "T", "true", "TRUE", "True"])
def test_texts_that_are_true(text: str) -> None:
    assert parse_bool(text) is True


@pytest.mark.parametrize("text", ["0", "f", "F", "false", "FALSE", "False"])
def test_texts_that_are_false(text: str) -> None:
    assert parse_bool(text) is False


@pytest.mark.parametrize("text", ["", "yes", "on", "tRUE", " true", "2"])
def test_texts_that_are_neither(text: str) -> None:
    assert parse_bool(text) is None


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1.0, "1"),
        (0.1, "0.1"),
        (0.57, "0.57"),
        (100000.0, "100000"),
        (1e6, "1e+06"),
        (1234567.0, "1.234567e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-2.5, "-2.5"),
        (0.0, "0"),
        (-0.0, "-0"),
        (1e100, "1e+100"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_doubles_are_written_as_by_the_verb_v(number: float, expected: str) -> None:
    assert general(number) == expected


@pytest.mark.parametrize(
    ("number", "expected"),
    [(1.0, "1.00"), (1.005, "1.00"), (1.125, "1.12"), (1.375, "1.38"), (4.999, "5.00")],
)
def test_decimals_are_rounded_by_the_exact_value(number: float, expected: str) -> None:
    assert fixed(number, 2) == expected
