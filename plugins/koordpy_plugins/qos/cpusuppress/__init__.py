"""Keep best-effort pods to the CPU that others leave over."""

from .plugin import CPUSuppress

__all__ = ["CPUSuppress"]
