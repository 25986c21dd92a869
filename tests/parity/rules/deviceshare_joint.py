"""Joint allocation: the same points as the rule deviceshare, on inputs of its own."""

from .deviceshare import group, run, same

__all__ = ["group", "run", "same"]
