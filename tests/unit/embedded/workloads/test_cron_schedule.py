"""Schedules of CronJobs."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from koordpy.embedded.workloads.cron_schedule import ScheduleError, parse

NOW = datetime(2026, 1, 31, 22, 58, 30, tzinfo=UTC)  # a Saturday


@pytest.mark.parametrize(
    ("schedule", "following"),
    [
        ("* * * * *", "2026-01-31T22:59"),
        ("*/5 * * * *", "2026-01-31T23:00"),
        ("7-40/10 * * * *", "2026-01-31T23:07"),
        ("0 6,18 * * *", "2026-02-01T06:00"),
        ("30 9 * * MON-FRI", "2026-02-02T09:30"),
        ("0 0 1 */3 *", "2026-04-01T00:00"),
        ("0 0 13 * fri", "2026-02-06T00:00"),  # either the day of the month or that of the week
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("0 0 * * 7", "2026-02-01T00:00"),
        ("@hourly", "2026-01-31T23:00"),
        ("@monthly", "2026-02-01T00:00"),
        ("@every 90s", "2026-01-31T23:00"),
    ],
)
def test_the_next_time(schedule: str, following: str) -> None:
    found = parse(schedule).next(NOW)
    assert found is not None
    assert found.strftime("%Y-%m-%dT%H:%M") == following


def test_a_schedule_may_be_in_another_time_zone() -> None:
    found = parse("0 9 * * *").next(NOW, ZoneInfo("Asia/Shanghai"))
    assert found == datetime(2026, 2, 1, 1, 0, tzinfo=UTC)


def test_a_time_that_never_comes_is_none() -> None:
    assert parse("0 0 30 2 *").next(NOW) is None


@pytest.mark.parametrize("schedule", ["", "* * * *", "60 * * * *", "a * * * *", "*/0 * * * *", "5-1 * * * *"])
def test_what_is_not_a_schedule_is_refused(schedule: str) -> None:
    with pytest.raises(ScheduleError):
        parse(schedule)
