"""Writes the status of Reservations, as scheduler and controller both do, without lost updates."""

import asyncio
import random
from collections.abc import Awaitable, Callable

from koordpy.api.reservation import Reservation
from koordpy.api.reservation_status import status_patch
from koordpy.cluster.client import Client
from koordpy.cluster.errors import Conflict, ConnectionFailed, TooManyRequests
from koordpy.cluster.retry import retried

Change = Callable[[Reservation], Reservation]
"""Returns a Reservation with another status, or the same object if there is nothing to write."""


async def write_status(
    client: Client,
    reservation: Reservation,
    change: Change,
    *,
    rng: random.Random,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Reservation:
    """Change the status of a Reservation, and return the result.

    `change` is first called with `reservation`, which may come from a store; if the object has changed since,
    or an answer was lost, with the live one, for up to four tries. An exception from it ends the tries.
    Raises Conflict if the tries were not enough or another object has the name now, NotFound if there is
    none, and other errors of the last try.
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
