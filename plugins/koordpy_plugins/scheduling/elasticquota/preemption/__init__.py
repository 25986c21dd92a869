"""Preemption within a quota."""
