"""Memory usage of a cgroup from its memory.stat and memory.numa_stat (spec section 5)."""

from koordpy.agent.toolkit import stat_text

_PAGE = 4096
_NUMA_V2 = (b"anon ", b"file ")


class MemoryStat:
    """Reads the text of memory.stat of one cgroup version."""

    __slots__ = ("_active_anon", "_active_file", "_inactive_anon", "_inactive_file", "_unevictable")

    def __init__(self, *, unified: bool) -> None:
        prefix = b"" if unified else b"total_"
        self._inactive_anon = prefix + b"inactive_anon "
        self._active_anon = prefix + b"active_anon "
        self._inactive_file = prefix + b"inactive_file "
        self._active_file = prefix + b"active_file "
        self._unevictable = prefix + b"unevictable "

    def in_use(self, text: bytes) -> int:
        """Return bytes without page cache: anonymous and unevictable memory. Raises ValueError."""
        number = stat_text.number
        return (
            number(text, self._inactive_anon)
            + number(text, self._active_anon)
            + number(text, self._unevictable)
        )

    def with_page_cache(self, text: bytes) -> int:
        """Return bytes with page cache: anonymous, file and unevictable memory. Raises ValueError."""
        number = stat_text.number
        return self.in_use(text) + number(text, self._inactive_file) + number(text, self._active_file)


_HIERARCHICAL = (b"\nhierarchical_anon=", b"\nhierarchical_unevictable=")


def in_use_of_numa_stat(text: bytes, page_size: int) -> int | None:
    """Return bytes without page cache from memory.numa_stat of v1; None if the kernel does not count them.

    They are the same pages as in memory.stat, which is twice as expensive to read. Raises ValueError.
    """
    pages = 0
    for key in _HIERARCHICAL:
        begin = text.find(key)
        if begin < 0:
            return None
        begin += len(key)
        pages += int(text[begin : text.find(b" ", begin)])
    return pages * page_size


def numa_bytes(text: bytes, *, unified: bool, page_size: int = _PAGE) -> dict[int, int]:
    """Return bytes by NUMA node from memory.numa_stat.

    v1 counts pages in its first line, `total=...`. v2 counts bytes of anonymous memory and of files, which
    Koordinator rounds down to pages of 4096 bytes, and takes times the machine's page size.
    """
    found: dict[int, int] = {}
    if not unified:
        line = text[: text.find(b"\n")] if b"\n" in text else text
        if not line.startswith(b"total="):
            raise ValueError("no line 'total='")
        for node, pages in _by_node(line):
            found[node] = pages * page_size
        return found
    seen = 0
    for line in text.splitlines():
        if line.startswith(_NUMA_V2):
            seen += 1
            for node, size in _by_node(line):
                found[node] = found.get(node, 0) + size // _PAGE * page_size
    if seen < len(_NUMA_V2):
        raise ValueError("no lines 'anon' and 'file'")
    return found


def _by_node(line: bytes) -> list[tuple[int, int]]:
    return [
        (int(name[1:]), int(value))
        for name, _, value in (field.partition(b"=") for field in line.split()[1:])
        if name.startswith(b"N")
    ]
