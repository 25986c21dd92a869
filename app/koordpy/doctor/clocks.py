"""Do the clocks agree? Ages of NodeMetrics and Leases are judged by this machine's clock."""

from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime

from koordpy.lib.http1 import HttpError

from .finding import Area, Finding
from .installation import Installation

AREA = Area("clock")

TOLERATED = 5.0
"""Seconds; the API server tells its time in whole ones, and the answer takes time."""


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Compare the API server's clock with this machine's."""
    try:
        answer = await installation.client.connection.request("GET", "/version")
    except HttpError as error:
        yield AREA.unknown("API server", f"cannot be asked: {error}")
        return
    if answer.status != 200:
        yield AREA.unknown(
            "API server",
            f"answers {answer.status} to /version: "
            + ("it does not accept the credentials" if answer.status in (401, 403) else "it may be none"),
            "see --server, --kubeconfig and --context",
        )
        return
    date = answer.header("date")
    if date is None:
        yield AREA.note("API server", "does not tell its time")
        return
    skew = (installation.clock.now() - parsedate_to_datetime(date)).total_seconds()
    if abs(skew) > TOLERATED:
        ahead = "ahead of" if skew > 0 else "behind"
        yield AREA.problem(
            "API server",
            f"this machine's clock is {abs(skew):.0f} s {ahead} the API server's: NodeMetrics and Leases "
            "look "
            "older or younger than they are",
            "synchronise the clocks (chrony, systemd-timesyncd)",
        )
    else:
        yield AREA.ok("API server", "its clock and this machine's agree")
