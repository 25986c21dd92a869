"""Limit what best-effort pods and single pods do on block devices."""

from .plugin import BlkioReconcile

__all__ = ["BlkioReconcile"]
