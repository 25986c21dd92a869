"""Give each QoS class its share of the last-level cache and of the memory bandwidth."""

from .plugin import ResctrlReconcile

__all__ = ["ResctrlReconcile"]
