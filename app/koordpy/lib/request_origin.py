"""Which requests come from web pages, by their Host and Origin.

A browser sends requests to loopback addresses for every page that is open in it. So a listener that trusts
all processes of its machine would trust web pages too: their POSTs, which any page may send without reading
the response, and after *DNS rebinding*, where the page's own host name resolves to 127.0.0.1, all their
requests. No page can change the header fields that give it away: `Host` has the name of the rebound host, and
`Origin` and `Sec-Fetch-Site` are added to requests for another host than the page's. Other clients (curl,
kubectl, kube-apiserver, kube-scheduler) send `Host` alone.
"""

import ipaddress
import re
from collections.abc import Collection, Iterable
from typing import Final

_HOST: Final = re.compile(r"(\[[^\[\]@/]*\]|[^\[\]:@/?#\s]+)(?::(\d{0,5}))?")
_ORIGIN: Final = re.compile(r"(\w[\w+.-]*)://(.*)")
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
_FOREIGN_SITES: Final = ("cross-site", "same-site")
_USUAL: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

_SHOWN: Final = 100
"""Characters of a header field that a message repeats."""


def is_loopback(host: str) -> bool:
    """Whether a host without port is `localhost` or a loopback address; IPv6 with or without brackets."""
    host = host.removeprefix("[").removesuffix("]").removesuffix(".").lower()
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_for(address: str, names: Iterable[str] = ()) -> frozenset[str] | None:
    """Return the `names` that `refusal` checks on a listener: further host names, without ports, if its own
    address is loopback, and None, which accepts every Host, if it is not: there nothing is known about the
    names by which clients may call it.
    """
    return frozenset(map(str.lower, names)) if is_loopback(address) else None


def refusal(headers: Iterable[tuple[bytes, bytes]], names: Collection[str] | None) -> str | None:
    """Return why a request is refused, None if it is not; the field names of `headers` are in lower case.

    Host must be a loopback name or address or, in lower case, one of `names`, with any port; with None it is
    not checked. An Origin must be that of the Host. Both apply to all methods.
    """
    host = origin = site = None
    for name, value in headers:
        if name == b"host":
            if host is not None:
                return "the request has several Host header fields, expected one"
            host = value.decode("latin-1").strip()
        elif name == b"origin":
            origin = value.decode("latin-1").strip()
        elif name == b"sec-fetch-site":
            site = value.decode("latin-1").strip().lower()
    if names is not None:
        problem = _host_problem(host, names)
        if problem is not None:
            return problem
    if origin is not None and not _is_same(origin, host or ""):
        return f"Origin is {_shown(origin)}: requests from web pages of other hosts are refused"
    if site in _FOREIGN_SITES:
        return f"Sec-Fetch-Site is {site}: requests from web pages of other hosts are refused"
    return None


def _host_problem(host: str | None, names: Collection[str]) -> str | None:
    if not host:
        return "the request has no Host header field"
    found = _HOST.fullmatch(host)
    if found is not None:
        name = found[1].lower()
        if name in _USUAL or name in names or is_loopback(name):
            return None
    others = f" or {', '.join(sorted(names))}" if names else ""
    return f"Host is {_shown(host)}, expected localhost, a loopback address{others}"


def _is_same(origin: str, host: str) -> bool:
    """Whether an Origin has the host and port of Host, `null` never."""
    found = _ORIGIN.fullmatch(origin)
    if found is None:
        return False
    default = _DEFAULT_PORTS.get(found[1].lower())
    ours, theirs = _HOST.fullmatch(host), _HOST.fullmatch(found[2])
    if ours is None or theirs is None:
        return False
    return (ours[1].lower(), ours[2] or default) == (theirs[1].lower(), theirs[2] or default)


def _shown(value: str) -> str:
    """Return a value as a message repeats it: quoted, without control characters, and not too long."""
    return ascii(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}...")
