"""Limit best-effort pods to the CPU that other pods leave."""

from .plugin import CPUSuppress

__all__ = ["CPUSuppress"]
