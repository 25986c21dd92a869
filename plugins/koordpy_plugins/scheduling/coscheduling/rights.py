"""What is written for gangs, beyond following them."""

from koordpy.api.needs import Right

_EVENTS = "events.k8s.io"

RIGHTS = (
    Right("patch", "podgroups", "scheduling.sigs.k8s.io"),
    Right("patch", "pods"),
    Right("patch", "pods/status"),
    Right("get", "pods"),
    Right("delete", "pods"),
    Right("create", "events", _EVENTS),
    Right("patch", "events", _EVENTS),
)
"""Pods are woken, relieved of their gates, and told why their gang does not fit; with `enablePreemption`
others are evicted for a gang."""
