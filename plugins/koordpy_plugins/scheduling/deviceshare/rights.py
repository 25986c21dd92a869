"""What is written for devices beside the bindings of pods: only for the device plugins of vendors."""

from typing import Final

from koordpy.api.needs import Right

ADAPTION_GATE: Final = "DevicePluginAdaption"

RIGHTS: Final = tuple(
    Right(verb, resource, gate=ADAPTION_GATE) for resource in ("nodes", "pods") for verb in ("get", "patch")
)
"""Nodes are locked, and pods labelled."""
