"""Plain HTTP to a process on this machine.

There is one client for all: making one reads the certificates of all authorities, which takes longer than
most answers. No connection is kept, so a process that was killed and started again is found.
"""

from typing import Any

import httpx

from tests.eventually import PATIENCE

_CLIENT = httpx.Client(
    verify=False,
    trust_env=False,
    timeout=PATIENCE,
    limits=httpx.Limits(max_keepalive_connections=0),
)


def get(url: str, **options: Any) -> httpx.Response:
    """Return the answer to a GET; raises httpx.HTTPError where there is none."""
    return _CLIENT.get(url, **options)


def post(url: str, **options: Any) -> httpx.Response:
    """Return the answer to a POST; raises httpx.HTTPError where there is none."""
    return _CLIENT.post(url, **options)


def is_ready(url: str) -> bool:
    """Return whether a GET is answered with 200, and soon."""
    try:
        return get(url, timeout=5).status_code == 200
    except httpx.HTTPError:
        return False
