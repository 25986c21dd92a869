"""Stand-ins for the kubelets and koordlets of an embedded control plane's nodes.

They talk to an API server over its HTTP API alone, and continue where others left off. Simulations run the
same pods with another `Runtime`.
"""

from .kubelets import Kubelets

__all__ = ["Kubelets"]
