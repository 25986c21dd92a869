"""The formats of strings."""

import base64
import ipaddress
import re
import uuid
from collections.abc import Callable
from datetime import date, datetime
from typing import Any


def _reads(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _date_time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None or "T" not in text.upper():
        raise ValueError(text)
    return moment


_GO_DURATION = re.compile(
    r"[-+]?(?:0|(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h|d|w)(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h|d|w))*)"
)

FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _reads(_date_time),
    "date": _reads(date.fromisoformat),
    "duration": lambda text: _GO_DURATION.fullmatch(text) is not None,
    "byte": _reads(lambda text: base64.b64decode(text, validate=True)),
    "uuid": _reads(uuid.UUID),
    "ipv4": _reads(ipaddress.IPv4Address),
    "ipv6": _reads(ipaddress.IPv6Address),
    "ip": _reads(ipaddress.ip_address),
    "cidr": _reads(ipaddress.ip_network),
}
