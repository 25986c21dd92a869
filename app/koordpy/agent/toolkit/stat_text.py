"""Numbers out of `NAME NUMBER` lines, as in memory.stat and cpu.stat, without splitting the text."""


def number(text: bytes, key: bytes) -> int:
    """Return the number of the line that begins with `key`, which ends with a space or colon.

    Raises ValueError if there is no such line.
    """
    if text.startswith(key):
        begin = len(key)
    else:
        begin = text.find(b"\n" + key)
        if begin < 0:
            raise ValueError(f"no line {key.decode(errors='replace').strip()!r}")
        begin += len(key) + 1
    end = text.find(b"\n", begin)
    return int(text[begin:] if end < 0 else text[begin:end])


def kib(text: bytes, key: bytes) -> int:
    """Return the bytes of a line `KEY: NUMBER kB` of a meminfo. Raises ValueError if there is none."""
    begin = text.find(key)
    if begin < 0:
        raise ValueError(f"no line {key.decode(errors='replace').strip()!r}")
    return int(text[begin + len(key) : text.index(b"kB", begin)]) * 1024
