"""The mounted devices of a node, from mountinfo of its first process: what findmnt prints."""

import re
from typing import Final

_ESCAPED: Final = re.compile(r"\\([0-7]{3})")


def parse(mountinfo: str) -> dict[str, str]:
    """Return the device by mount point, for whole file systems on devices; the last mount at a point counts.

    Lines of another form than proc(5) describes are left out.
    """
    found: dict[str, str] = {}
    for line in mountinfo.splitlines():
        before, mark, after = line.partition(" - ")
        fields, source = before.split(" "), after.split(" ")
        if not mark or len(fields) < 6 or len(source) < 2:
            continue
        root, point, device = fields[3], _unescaped(fields[4]), _unescaped(source[1])
        found.pop(point, None)
        if root == "/" and device.startswith("/dev/"):
            found[point] = device
    return found


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 8)), text)
