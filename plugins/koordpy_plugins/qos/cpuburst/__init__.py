"""CPUBurst: let containers exceed their CPU limit for a while."""

from .plugin import CPUBurst

__all__ = ["CPUBurst"]
