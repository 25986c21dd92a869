"""What collectors and reporters of the node's topology and devices have in common."""

from typing import Final

from koordpy.api.needs import Right

TOPOLOGY_INTERVAL: Final = "node-topology-sync-interval"
"""The flag with the time between two reports of the node's topology and devices; its default is 3s."""

TOPOLOGY_INTERVAL_HELP: Final = "time between two reports of the node's topology and devices"

DEVICE_RIGHTS: Final = tuple(
    Right(verb, "devices", "scheduling.koordinator.sh") for verb in ("get", "create", "update")
)
"""What reporting the node's Device needs."""
