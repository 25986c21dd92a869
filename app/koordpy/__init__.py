"""Koordinator's colocation, QoS and scheduling behaviour on a stock Kubernetes cluster."""

from importlib.metadata import version

__version__ = version("koordpy")
