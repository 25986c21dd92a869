"""Writing the status of Reservations, which scheduler and controller both do, without losing anything."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from koordpy.api.reservation import Reservation
from koordpy.api.reservation_status import status_patch
from koordpy.cluster.client import Client
from koordpy.cluster.errors import Conflict, ConnectionFailed, TooManyRequests
from koordpy.cluster.retry import retried

Change = Callable[[Reservation], Reservation]
"""Returns a Reservation with another status, or the very same one where nothing is to be written."""


async def write_status(
    client: Client,
    reservation: Reservation,
    change: Change,
    *,
    rng: random.Random,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Reservation:
    """Change the status of a Reservation, and return it as it is then.

    `change` is first given `reservation`, which may come from a store; if the object has changed since, or
    an answer was lost, the live one, and so on for four tries. What it raises ends that. Raises Conflict when
    the tries were not enough or another object has the name now, NotFound when none has, and what else comes
    of the last try.
    """
    known: Reservation | None = reservation

    async def attempt() -> Reservation:
        nonlocal known
        current, known = known, None
        if current is None:
            current = await client.get(Reservation, "", reservation.metadata.name)
        same = current.metadata.uid == reservation.metadata.uid
        changed = change(current) if same else current
        if changed is current and same:
            return current
        patch = status_patch(current, changed)
        patch["metadata"]["uid"] = reservation.metadata.uid
        return await client.patch_status(Reservation, "", reservation.metadata.name, patch)

    return await retried(attempt, rng=rng, sleep=sleep, on=(Conflict, TooManyRequests, ConnectionFailed))
