"""Who may call the debug API of a process: this machine, or callers that the API server reviews."""

import logging
from typing import Final

from koordpy.api.needs import Right
from koordpy.http.server.authentication import ACCESS_REVIEWS, TOKEN_REVIEWS
from koordpy.settings import DebugSettings

from .part import PartError

log = logging.getLogger(__name__)

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def rights(settings: DebugSettings) -> tuple[Right, ...]:
    """Return the rights to create TokenReviews and SubjectAccessReviews, if callers are authenticated."""
    if not settings.authentication:
        return ()
    return tuple(Right("create", each.plural, each.group) for each in (TOKEN_REVIEWS, ACCESS_REVIEWS))


def check(settings: DebugSettings) -> None:
    """Raise PartError for an address that is reachable from outside without authentication."""
    if settings.bind_address in LOOPBACK:
        return
    if not settings.authentication:
        raise PartError(
            f"debug.bindAddress: {settings.bind_address} is not loopback; set debug.authentication, or "
            f"bind to 127.0.0.1"
        )
    if settings.cert_dir is None:
        log.warning("debug.certDir is not set: bearer tokens cross the network in clear text")
