"""What is written when a pod preempts within its quota."""

from koordpy.api.needs import Right

_EVENTS = "events.k8s.io"

RIGHTS = (
    Right("get", "pods"),
    Right("delete", "pods"),
    Right("patch", "pods/status"),
    Right("create", "events", _EVENTS),
    Right("patch", "events", _EVENTS),
)
"""Victims are told why, and deleted; the pod is nominated to their node."""
