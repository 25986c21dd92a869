"""An API server in a box: kube-apiserver's REST dialect on a loopback port, for demos, tests and simulations.

It is spoken to over HTTP like the real one; where the two differ, this one is wrong.
"""

from .server import ApiServer, Fault

__all__ = ["ApiServer", "Fault"]
