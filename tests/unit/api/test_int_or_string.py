import pytest

from koordpy.api import int_or_string


@pytest.mark.parametrize(
    ("value", "total", "up", "down"),
    [(3, 10, 3, 3), (-1, 10, -1, -1), ("25%", 10, 3, 2), ("100%", 7, 7, 7), ("-25%", 10, -2, -3)],
)
def test_percentages_are_of_the_total(value: int | str, total: int, up: int, down: int) -> None:
    assert int_or_string.scaled(value, total, round_up=True) == up
    assert int_or_string.scaled(value, total, round_up=False) == down


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "invalid type: string is not a percentage"),
        ("x%", 'invalid value "x%": strconv.Atoi: parsing "x": invalid syntax'),
        ("9223372036854775808%", "value out of range"),
    ],
)
def test_other_texts_are_refused_in_kubernetes_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="invalid value for IntOrString: ") as refused:
        int_or_string.percentage(text)
    assert message in str(refused.value)
