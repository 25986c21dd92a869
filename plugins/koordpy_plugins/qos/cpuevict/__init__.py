"""CPUEvict: evict pods of low priority when best-effort pods starve, or the node's CPU is overused."""

from .plugin import CPUEvict

__all__ = ["CPUEvict"]
