"""The Reservation mutating webhook, bytes in, bytes out: `koordpy.admission` with the in-tree handlers."""

from typing import Any

from .admission_mutating import mutate, same

__all__ = ["run", "same"]


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    return mutate("/mutate-reservation", case_in, {"ReservationMutatingWebhook": True})
