from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.lib import duration, int64


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("90s", 90 * duration.SECOND),
        ("1h30m", 90 * duration.MINUTE),
        ("-1.5ms", -1_500_000),
        ("+.5s", 500_000_000),
        ("1.s", duration.SECOND),
        ("2us", 2_000),
        ("1.9ns", 1),
    ],
)
def test_text_is_read_as_go_reads_it(text: str, nanoseconds: int) -> None:
    assert duration.parse(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "-", "5", "1.5", "s", ".s", "1 s", "1d", "1s2", "3h1x", "3000000h"])
def test_other_text_is_refused_by_name(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        duration.parse(text)


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (999_999_999, "999.999999ms"),
        (duration.SECOND, "1s"),
        (-90 * duration.SECOND, "-1m30s"),
        (duration.HOUR, "1h0m0s"),
        (duration.HOUR + 500_000_000, "1h0m0.5s"),
    ],
)
def test_durations_are_written_as_go_writes_them(nanoseconds: int, text: str) -> None:
    assert duration.format(nanoseconds) == text


@given(st.integers(int64.MIN, int64.MAX))
def test_what_is_written_reads_back(nanoseconds: int) -> None:
    assert duration.parse(duration.format(nanoseconds)) == nanoseconds


@pytest.mark.parametrize(
    ("seconds", "held"),
    [
        (0, timedelta()),
        (-5, timedelta(seconds=-5)),
        (9_000_000_000, timedelta(seconds=9_000_000_000)),
        (10**10, timedelta(microseconds=(10**19 - 2**64) // 1000)),
        (2**63 - 1, timedelta(seconds=-1)),
    ],
)
def test_seconds_wrap_as_nanoseconds_of_64_bits_do(seconds: int, held: timedelta) -> None:
    assert duration.of_seconds(seconds) == held
