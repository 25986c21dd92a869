"""The point that lets one pass over the nodes serve many pods."""

from collections.abc import Hashable

from koordpy.api.core import Pod


class SignPlugin:
    """Signs pods: pods with the same signature get the same answers from the plugin.

    The results of PreFilter, Filter, PreScore and Score of the plugin for a node, and what they store in the
    state for Reserve and later, must then depend only on the pod's namespace, its spec and the result of
    `sign_pod`, and on that node with the pods on it. Anything else that they depend on may be up to half a
    second old. A pod is evaluated alone as soon as one plugin of its profile does not sign it.

    Source: Kubernetes, `SignPlugin`. There a plugin signs every part of the pod that it reads; here the spec
    is signed as a whole, except for volumes that consist of a name only.
    """

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """Return what matters of a pod besides its namespace and spec; None if it must be evaluated alone.

        It is called for every pod, also if the nodes were evaluated before: here a plugin can detect pods
        that depend on other nodes' pods, Services or Reservations.
        """
        return ()
