import math

import pytest

from koordpy.lib import go_float


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1.5", 1.5),
        ("+1.1", 1.1),
        (".5e1", 5.0),
        ("5.", 5.0),
        ("1_0", 10.0),
        ("1_0.5_0", 10.5),
        ("0x1p1", 2.0),
        ("0X_1.8P-1", 0.75),
        ("Inf", math.inf),
        ("-infinity", -math.inf),
        ("1e-999", 0.0),
    ],
)
def test_numbers_as_go_writes_them(text, number):
    assert go_float.parse(text) == number


def test_not_a_number_is_a_number_without_a_sign():
    assert math.isnan(go_float.parse("NaN"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "abc",
        "1__0",
        "_1",
        "1_",
        "1_.5",
        "1e_5",
        "0x1",
        "0x",
        "+nan",
        "1e999",
        "0x1p99999",
        "٣",
    ],
)
def test_other_texts_are_none(text):
    with pytest.raises(ValueError, match="64 bits"):
        go_float.parse(text)
