"""Times as Go's `time.Parse` reads them with the layout `time.RFC3339`."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

# Go takes an hour of one digit, a comma before the fraction, and an offset of up to 24 hours and 60 minutes.
_RFC_3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d{1,2})(:\d\d:\d\d)(?:[.,](\d+))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)


def parse_rfc_3339(text: str) -> datetime:
    """Return the time in UTC, to the microsecond.

    Raises ValueError if it is none, or outside of the years 1 to 9999, which Go does take.
    """
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise ValueError(f'not an RFC 3339 time: "{text}"')
    day, hour, rest, fraction, sign, hours, minutes = match.groups()
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    try:
        if int(hours or 0) > 24 or int(minutes or 0) > 60:
            raise ValueError
        moment = datetime.fromisoformat(f"{day}T{hour:>02}{rest}").replace(
            microsecond=int((fraction or "")[:6].ljust(6, "0")), tzinfo=UTC
        )
        return moment + offset if sign == "-" else moment - offset
    except (ValueError, OverflowError):
        raise ValueError(f'not an RFC 3339 time: "{text}"') from None
