"""The controllers of kube-controller-manager that people use first, as a part of the embedded control plane.

They talk to an API server over its HTTP API alone, and hold nothing that a restart would lose.
"""

from .controllers import WorkloadControllers

__all__ = ["WorkloadControllers"]
