"""What is written for devices beside the bindings of pods."""

from typing import Final

from koordpy.api.needs import Right

RIGHTS: Final = (
    Right("get", "nodes"),
    Right("patch", "nodes"),
    Right("get", "pods"),
    Right("patch", "pods"),
)
"""Nodes are locked, and pods labelled, for device plugins (gate DevicePluginAdaption)."""
