"""An in-process API server: kube-apiserver's REST API on a loopback port, for demos, tests and simulations.

It is accessed over HTTP like the real one; any difference between the two is a bug here.
"""

from .server import ApiServer, Fault

__all__ = ["ApiServer", "Fault"]
