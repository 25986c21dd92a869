from datetime import UTC, datetime

import pytest

from koordpy.lib.go_time import parse_rfc_3339

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-03-01T12:00:00Z", NOON),
        ("2026-03-01T20:00:00+08:00", NOON),
        ("2026-03-01T06:30:00-05:30", NOON),
        ("2026-03-02T12:00:00+24:00", NOON),
        ("2026-03-01T13:00:00+00:60", NOON),
        ("2026-03-01T9:00:00Z", NOON.replace(hour=9)),
        ("2026-03-01T12:00:00.5Z", NOON.replace(microsecond=500_000)),
        ("2026-03-01T12:00:00,123456789Z", NOON.replace(microsecond=123_456)),
        ("2024-02-29T00:00:00Z", datetime(2024, 2, 29, tzinfo=UTC)),
    ],
)
def test_times_as_go_reads_them(text: str, moment: datetime) -> None:
    assert parse_rfc_3339(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-03-01",
        "2026-03-01T12:00:00",
        "2026-03-01 12:00:00Z",
        "2026-03-01t12:00:00Z",
        "2026-03-01T12:00:00z",
        "2026-03-01T12:00:00.Z",
        "2026-03-01T12:0:00Z",
        "2026-03-01T24:00:00Z",
        "2026-03-01T12:00:60Z",
        "2026-02-29T12:00:00Z",
        "2026-03-01T12:00:00+0800",
        "2026-03-01T12:00:00+25:00",
        "2026-03-01T12:00:00+08:61",
        "٢٠٢٦-03-01T12:00:00Z",
        "9999-12-31T23:59:59-10:00",
        "0001-01-01T00:00:00+10:00",
        "0000-01-01T00:00:00Z",
    ],
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an RFC 3339 time"):
        parse_rfc_3339(text)
