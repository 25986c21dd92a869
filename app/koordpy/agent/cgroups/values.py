"""Values of resources: what the kernel accepts, their texts on v1 and v2, and when two are the same."""

import re
from typing import Final

from koordpy.agent.cgroups.table import MAX_INT64, Kind, Resource, Version
from koordpy.agent.interface.cgroups import InvalidValueError
from koordpy.lib import cpuset

_DEVICE: Final = re.compile(r"\d+:\d+ ")
_UNSIGNED_32: Final = 2**32 - 1
_FIELDS: Final = {
    "blkio.cost.qos": (7, ("rpct", "rlat", "wpct", "wlat")),
    "blkio.cost.model": (8, ("rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops")),
}
"""The number of words of a complete line, and those of them that are numbers."""


def number(name: str, text: str | bytes) -> int:
    """Return the number in a text; `max` is the largest. Raises InvalidValueError."""
    try:
        return int(text)
    except ValueError:
        if text.strip() in ("max", b"max"):
            return MAX_INT64
        raise InvalidValueError(f"{name}: not a number: {text!r}") from None


def limit(name: str, text: str) -> int:
    """Return the order of a limit: no limit (-1, `max`) is larger than all. Raises InvalidValueError."""
    words = text.split()
    first = words[0] if words else ""
    return MAX_INT64 if first in ("max", "-1") else number(name, first)


def shares_to_weight(shares: int) -> int:
    """Return v2's weight for v1's CPU shares."""
    return 1 + (shares - 2) * 9999 // 262142


def weight_to_shares(weight: int) -> int:
    """Return v1's CPU shares for v2's weight."""
    return (weight - 1) * 262142 // 9999 + 2


def validate(resource: Resource, version: Version, value: str) -> None:
    """Raise InvalidValueError if the kernel would reject a value."""
    match resource.kind:
        case Kind.READ_ONLY:
            raise InvalidValueError(f"{resource.name} can only be read")
        case Kind.CPUSET:
            try:
                cpuset.parse(value)
            except ValueError as error:
                raise InvalidValueError(f"{resource.name}: {error}") from None
        case Kind.DEVICE:
            _validate_device(resource, value)
        case Kind.SCHEMATA:
            _validate_schemata(resource, value)
        case Kind.FEATURES:
            if not value.isidentifier():
                raise InvalidValueError(f"{resource.name}: {value!r} is no name of a feature")
        case Kind.CLASS_ID:
            _validate_class_id(resource, value)
        case _:
            _in_range(resource, version, value)


def part(resource: Resource, value: str) -> str:
    """Return which part of the file a value is for: the device, the line or the feature; "" is all of it."""
    match resource.kind:
        case Kind.DEVICE:
            return value.partition(" ")[0]
        case Kind.SCHEMATA:
            return value.partition(":")[0].strip()
        case Kind.FEATURES:
            return value.removeprefix("NO_")
        case Kind.MOVE:
            return value
    return ""


def part_of(resource: Resource, version: Version, content: str, part: str) -> str:
    """Return the value of a part of a file's content, in the form in which it is written back."""
    words = content.split()
    match resource.kind:
        case Kind.QUOTA if version is Version.V2:
            return words[0] if words else content
        case Kind.PERIOD if version is Version.V2:
            return words[-1] if words else content
        case Kind.DEVICE:
            found = [line for line in content.splitlines() if line.startswith(f"{part} ")]
            return found[0] if found else absent(resource, part)
        case Kind.SCHEMATA:
            found = [line.strip() for line in content.splitlines() if line.strip().startswith(f"{part}:")]
            return found[0] if found else ""
        case Kind.FEATURES:
            return f"NO_{part}" if f"NO_{part}" in content.split() else part
        case Kind.MOVE:
            return ""
    return content


def absent(resource: Resource, device: str) -> str:
    """Return the line that removes a device's setting."""
    if resource.name in _FIELDS:
        return f"{device} enable=0" if resource.name == "blkio.cost.qos" else f"{device} ctrl=auto"
    if resource.name == "blkio.cost.weight":
        return f"{device} default"
    return f"{device} 0"


def to_text(resource: Resource, version: Version, value: str, current: str = "") -> str:
    """Return what is written for a value; `current` is the file's content.

    v2 has `max` for -1, weights for shares, and quota and period in one file.
    """
    kind = resource.kind
    if version is Version.V1 or kind not in (Kind.QUOTA, Kind.LIMIT, Kind.SHARES, Kind.PERIOD):
        return value
    if kind is Kind.SHARES:
        return str(shares_to_weight(int(value)))
    if kind is Kind.PERIOD:
        words = current.split()
        return f"{words[0] if words else 'max'} {value}"
    return "max" if value == "-1" else value


def same(resource: Resource, version: Version, current: str, text: str) -> bool:
    """Return whether a file's content already says what a text would say."""
    if current == text:
        return True
    match resource.kind:
        case Kind.CPUSET:
            try:
                return cpuset.parse(current) == cpuset.parse(text)
            except ValueError:
                return False
        case Kind.QUOTA:
            return current.split()[:1] == text.split()[:1]
        case Kind.PERIOD:
            return current.split()[-1:] == text.split()[-1:]
        case Kind.LIMIT | Kind.LARGER:
            return _unlimited(current) and _unlimited(text)
        case Kind.DEVICE:
            device, _, rest = text.partition(" ")
            if rest == "0":
                return not any(line.startswith(f"{device} ") for line in current.splitlines())
            return text in current.splitlines()
        case Kind.SCHEMATA:
            return _schemata(part_of(resource, version, current, part(resource, text))) >= _schemata(text)
        case Kind.FEATURES:
            return text in current.split()
        case Kind.CLASS_ID:
            return current.isdecimal() and int(current) == int(text, 0)
    return False


def _unlimited(text: str) -> bool:
    # v1 rounds "no limit" down to whole pages.
    return text in ("max", "-1") or (text.isdecimal() and int(text) >= 0x7FFFFFFFFFFFF000)


def _schemata(line: str) -> frozenset[str]:
    """Return what a line `L3:0=0f;1=f` says, whatever its blanks and leading zeros."""
    name, _, rest = line.partition(":")
    entries = (entry.partition("=") for entry in rest.split(";") if entry.strip())
    return frozenset(f"{name.strip()}:{key.strip()}={value.strip().lstrip('0')}" for key, _, value in entries)


def _in_range(resource: Resource, version: Version, value: str) -> None:
    found = number(resource.name, value)
    low, high = resource.range(version)
    if (low is not None and found < low) or (high is not None and found > high):
        raise InvalidValueError(f"{resource.name}: {value} is not in [{low}, {high}]")


def _validate_device(resource: Resource, value: str) -> None:
    if not _DEVICE.match(value):
        raise InvalidValueError(f"{resource.name}: {value!r} is not MAJOR:MINOR VALUE")
    words = value.split()
    if resource.name in _FIELDS:
        count, keys = _FIELDS[resource.name]
        if len(words) != count:
            return
        pairs = dict(word.partition("=")[::2] for word in words[1:])
        numbers = [pairs.get(key, "") for key in keys]
    else:
        numbers = words[1:2] if len(words) == 2 else []
    for text in numbers:
        found = number(resource.name, text)
        low, high = resource.minimum or 0, resource.maximum or MAX_INT64
        if not low <= found <= high:
            raise InvalidValueError(f"{resource.name}: {text} is not in [{low}, {high}]")


def _validate_schemata(resource: Resource, value: str) -> None:
    name, mark, rest = value.partition(":")
    entries = [entry.partition("=") for entry in rest.strip().split(";")]
    if not mark or not name.strip() or not all(key.strip().isdecimal() and text for key, _, text in entries):
        raise InvalidValueError(f"{resource.name}: {value!r} is not RESOURCE:ID=VALUE;...")


def _validate_class_id(resource: Resource, value: str) -> None:
    try:
        found = int(value, 0)
    except ValueError:
        raise InvalidValueError(f"{resource.name}: {value!r} is no decimal or hexadecimal number") from None
    if not 0 <= found <= _UNSIGNED_32:
        raise InvalidValueError(f"{resource.name}: {value} is not in [0, {_UNSIGNED_32:#x}]")
