"""Cold memory from the text of memory.idle_page_stats, which kidled writes."""

COLD_BOUNDARY = 5
"""The first of the eight ages that counts as cold."""
_LINES = 31
_FIRST_COUNT = 14
_COLD_TYPES = frozenset({"cfei", "dfei", "cfui", "dfui"})
"""Clean and dirty, evictable and unevictable pages of files that are inactive."""


def cold_bytes(text: str) -> int:
    """Return the bytes of inactive page cache that are cold. Raises ValueError for another format."""
    lines = text.rstrip("\n").split("\n")
    if len(lines) != _LINES:
        raise ValueError(f"memory.idle_page_stats has {len(lines)} lines, expected {_LINES}")
    rows = (line.split() for line in lines[_FIRST_COUNT:])
    return sum(sum(map(int, row[1 + COLD_BOUNDARY :])) for row in rows if row and row[0] in _COLD_TYPES)
