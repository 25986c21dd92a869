import pytest

from koordpy_plugins.admission.cluster_colocation_profile.probability import is_skipped, percentage

from .pods import Rolls


@pytest.mark.parametrize(
    ("probability", "percent"),
    [(None, 100), (0, 0), (-3, -3), (250, 250), ("50%", 50), ("+7%", 7), ("-7%", -7), ("0050%", 50)],
)
def test_percentage(probability: int | str | None, percent: int) -> None:
    assert percentage(probability) == percent


@pytest.mark.parametrize(
    "text", ["50", "", "%", "5 %", " 5%", "1.5%", "1e2%", "five%", "9223372036854775808%"]
)
def test_text_that_is_no_percentage_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid value for IntOrString"):
        percentage(text)


@pytest.mark.parametrize(("percent", "skipped"), [(0, True), (100, False)])
def test_never_and_always_need_no_roll(percent: int, skipped: bool) -> None:
    assert is_skipped(percent, Rolls()) is skipped


@pytest.mark.parametrize(
    ("percent", "roll", "skipped"),
    [(50, 50, False), (50, 51, True), (99, 99, False), (-1, 0, True), (1, 0, False), (101, 99, False)],
)
def test_roll_has_to_exceed_the_percentage_to_skip(percent: int, roll: int, skipped: bool) -> None:
    assert is_skipped(percent, Rolls(roll)) is skipped
