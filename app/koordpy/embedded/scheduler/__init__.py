"""A substitute for kube-scheduler: same configuration file, same extender calls, same arithmetic."""

from .scheduler import Scheduler

__all__ = ["Scheduler"]
