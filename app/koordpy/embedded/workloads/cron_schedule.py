"""Schedules of CronJobs, such as `*/5 9-17 * * MON-FRI` or `@hourly`.

The format is that of cron, as Kubernetes reads it: github.com/robfig/cron, without seconds.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from koordpy.lib import duration

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_YEARS = 5
"""A schedule without a time within so many years has none."""


class ScheduleError(ValueError):
    """A text is not a schedule; the message says which part of it."""


@dataclass(frozen=True)
class Schedule:
    """The times of a schedule; with `every` seconds it is an interval instead."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool
    every: float = 0.0

    def next(self, after: datetime, zone: tzinfo = UTC) -> datetime | None:
        """Return the first time after another one, in UTC; the schedule is in a time zone."""
        if self.every:
            return after.replace(microsecond=0) + timedelta(seconds=self.every)
        local = after.astimezone(zone).replace(second=0, microsecond=0) + timedelta(minutes=1)
        limit = local.year + _YEARS
        while local.year <= limit:
            if local.month not in self.months:
                local = (local.replace(day=1, hour=0, minute=0) + timedelta(days=32)).replace(day=1)
            elif not self._on(local):
                local = local.replace(hour=0, minute=0) + timedelta(days=1)
            elif local.hour not in self.hours:
                local = local.replace(minute=0) + timedelta(hours=1)
            elif local.minute not in self.minutes:
                local += timedelta(minutes=1)
            else:
                return local.astimezone(UTC)
        return None

    def _on(self, day: datetime) -> bool:
        in_month, in_week = day.day in self.days, (day.weekday() + 1) % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return in_month and in_week
        return in_month or in_week


def parse(text: str) -> Schedule:
    """Read a schedule. Raises ScheduleError."""
    text = text.strip().lower()
    if text.startswith("@every "):
        try:
            seconds = duration.parse(text.removeprefix("@every ").strip()) / duration.SECOND
        except ValueError as error:
            raise ScheduleError(f"schedule {text!r}: {error}") from None
        every = max(float(int(seconds)), 1.0)
        none: frozenset[int] = frozenset()
        return Schedule(none, none, none, none, none, True, True, every)
    fields = _MACROS.get(text, text).split()
    if len(fields) != 5:
        raise ScheduleError(f"schedule {text!r}: got {len(fields)} fields, expected 5, such as */5 * * * *")
    minutes = _field(fields[0], 0, 59)
    hours = _field(fields[1], 0, 23)
    days = _field(fields[2], 1, 31)
    months = _field(fields[3], 1, 12, _MONTHS, 1)
    weekdays = frozenset(day % 7 for day in _field(fields[4], 0, 7, _DAYS))
    any_day, any_weekday = fields[2][0] in "*?", fields[4][0] in "*?"
    return Schedule(minutes, hours, days, months, weekdays, any_day, any_weekday)


def _field(text: str, least: int, most: int, names: tuple[str, ...] = (), base: int = 0) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if span in ("*", "?"):
            low, high = least, most
        else:
            low = _number(first, part, names, base)
            high = _number(last, part, names, base) if dash else (most if step else low)
        stride = _number(step, part) if step else 1
        if not least <= low <= high <= most or stride < 1:
            raise ScheduleError(f"schedule: {part!r} is not between {least} and {most}")
        found.update(range(low, high + 1, stride))
    return frozenset(found)


def _number(text: str, part: str, names: tuple[str, ...] = (), base: int = 0) -> int:
    if text in names:
        return names.index(text) + base
    if not text.isdigit():
        raise ScheduleError(f"schedule: {part!r} is not a number, a range or a step")
    return int(text)
