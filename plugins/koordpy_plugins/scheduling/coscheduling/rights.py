"""What is written for gangs, beyond following them."""

from koordpy.api.needs import Right

RIGHTS = (
    Right("patch", "podgroups", "scheduling.sigs.k8s.io"),
    Right("patch", "pods"),
    Right("patch", "pods/status"),
)
"""Pods are woken, relieved of their gates, and told why their gang does not fit."""
