"""memoryEvict: evict pods of low priority when the node's memory is overused."""

from .plugin import MemoryEvict

__all__ = ["MemoryEvict"]
