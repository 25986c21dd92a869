"""The collector of the node's disks and of what lies on them."""

from .plugin import NodeStorageInfo

__all__ = ["NodeStorageInfo"]
