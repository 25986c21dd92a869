"""Keep settings of the node's kernel."""

from .plugin import SystemConfigReconcile

__all__ = ["SystemConfigReconcile"]
