"""The form of core events, and of the times that events and Leases have."""

import re
from typing import Any

from ...errors import bad_request
from .form import Form

_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")


class _Reference(Form):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    api_version: str | None = None
    resource_version: str | None = None
    field_path: str | None = None


class _Source(Form):
    component: str | None = None
    host: str | None = None


class _Series(Form):
    count: int | None = None
    last_observed_time: str | None = None


class Event(Form):
    """A core event."""

    involved_object: _Reference | None = None
    related: _Reference | None = None
    reason: str | None = None
    message: str | None = None
    source: _Source | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    count: int | None = None
    type: str | None = None
    event_time: str | None = None
    series: _Series | None = None
    action: str | None = None
    reporting_component: str | None = None
    reporting_instance: str | None = None


def check_micro_time(kind: str, path: str, value: Any) -> None:
    """Raise ApiError (400) for a value that is not a MicroTime."""
    if value is not None and not (isinstance(value, str) and _MICRO_TIME.fullmatch(value)):
        raise bad_request(
            f"{kind} cannot be handled as a {kind}: {path}: parsing time {value!r} "
            'as "2006-01-02T15:04:05.000000Z07:00"'
        )
