"""Clock skew: the ages of NodeMetrics and Leases are computed with this machine's clock."""

from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime

from koordpy.lib.http1 import HttpError

from .finding import Area, Finding
from .installation import Installation

AREA = Area("clock")

TOLERATED = 5.0
"""Seconds; the API server's Date header has whole seconds, and the response takes time."""


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Compare the API server's clock with this machine's."""
    try:
        answer = await installation.client.connection.request("GET", "/version")
    except HttpError as error:
        yield AREA.unknown("API server", f"cannot be reached: {error}")
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
        yield AREA.note("API server", "sends no Date header")
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
        yield AREA.ok("API server", "its clock and this machine's clock agree")
