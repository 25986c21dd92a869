"""What is written for Reservations, by the plugin and by what schedules them, beyond following them."""

from koordpy.api.needs import Right

_RESERVATIONS = "scheduling.koordinator.sh"
_EVENTS = "events.k8s.io"

RIGHTS = (
    Right("get", "reservations", _RESERVATIONS),
    Right("patch", "reservations", _RESERVATIONS),
    Right("patch", "reservations/status", _RESERVATIONS),
    Right("delete", "reservations", _RESERVATIONS),
    Right("patch", "pods"),
    Right("create", "events", _EVENTS),
    Right("patch", "events", _EVENTS),
)
"""Pods are patched with what they were allocated, and woken when a reservation frees something."""
