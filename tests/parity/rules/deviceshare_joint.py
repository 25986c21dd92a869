"""Joint allocation: the same points as the rule deviceshare, on inputs of its own."""

from .deviceshare import _same_field, run, same

__all__ = ["run", "same"]
