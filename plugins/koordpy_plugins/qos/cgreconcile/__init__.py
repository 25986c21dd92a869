"""Protect the memory of pods, and reclaim it early, by their QoS class."""

from .plugin import CgroupReconcile

__all__ = ["CgroupReconcile"]
