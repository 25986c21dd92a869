"""Addresses of the form `host:port`, split as Go's `net.SplitHostPort` does."""

MISSING_PORT = "missing port in address"
TOO_MANY_COLONS = "too many colons in address"


def split(address: str) -> tuple[str, str]:
    """Return host and port, either may be empty; the brackets around an IPv6 address are removed.

    Raises ValueError with Go's text.
    """
    colon = address.rfind(":")
    if colon < 0:
        raise ValueError(_problem(address, MISSING_PORT))
    if address[0] == "[":
        end = address.find("]")
        if end < 0:
            raise ValueError(_problem(address, "missing ']' in address"))
        if end + 1 == len(address):
            raise ValueError(_problem(address, MISSING_PORT))
        if end + 1 != colon:
            many = address[end + 1] == ":"
            raise ValueError(_problem(address, TOO_MANY_COLONS if many else MISSING_PORT))
        host, rest, after = address[1:end], address[1:], address[end + 1 :]
    else:
        host, rest, after = address[:colon], address, address
        if ":" in host:
            raise ValueError(_problem(address, TOO_MANY_COLONS))
    for bracket, part in (("[", rest), ("]", after)):
        if bracket in part:
            raise ValueError(_problem(address, f"unexpected '{bracket}' in address"))
    return host, address[colon + 1 :]


def join(host: str, port: str | int) -> str:
    """Return `host:port`, with brackets around a host that has colons."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _problem(address: str, text: str) -> str:
    return f"address {address}: {text}" if address else text
