"""Building the head of a request: a request line and headers, safe against injection."""

import re
from collections.abc import Mapping

_TARGET = re.compile(r"[!-~]+").fullmatch
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+").fullmatch
_FIELD_VALUE = re.compile(r"[\t -~\x80-\xff]*").fullmatch


def request_head(
    method: str, target: str, host_line: bytes, headers: Mapping[str, str] | bytes, length: int, gzip: bool
) -> bytes:
    """Build everything before the body. Raises ValueError for an invalid target or header."""
    if not _TARGET(target) or not _TOKEN(method):
        raise ValueError(f"not a request line: {method!r} {target!r}")
    block = headers if isinstance(headers, bytes) else header_block(headers)
    accept = b"accept-encoding: gzip\r\n" if gzip else b""
    sized = b"content-length: %d\r\n" % length if length or method not in ("GET", "HEAD", "DELETE") else b""
    return b"%b %b HTTP/1.1\r\n%b%b%b%b\r\n" % (
        method.encode(), target.encode(), host_line, block, accept, sized,
    )  # fmt: skip


def header_block(headers: Mapping[str, str]) -> bytes:
    """Build header lines once for many requests.

    Raises ValueError for a name or value that could end the line; the message omits values, which may be
    secret.
    """
    for name, value in headers.items():
        if not _TOKEN(name) or not _FIELD_VALUE(value):
            raise ValueError(f"not a header: {name!r} with a value of {len(value)} characters")
    return b"".join(f"{name}: {value}\r\n".encode("latin-1") for name, value in headers.items())
