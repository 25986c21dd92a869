"""The point that lets one pass over the nodes serve many pods."""

from collections.abc import Hashable

from koordpy.api.core import Pod


class SignPlugin:
    """Vouches that pods which say the same to it get the same answers from it.

    What PreFilter, Filter, PreScore and Score of the plugin say of a node, and what they leave in the state
    for Reserve and later, must then follow from the pod's namespace, its spec and what `sign_pod` returns,
    and from that node with the pods on it: nothing that changes while neither does, but for what may be half
    a second old. A pod gets a pass of its own as soon as one plugin of its profile does not sign it.

    Source: Kubernetes, `SignPlugin`. There a plugin signs every part of the pod that it reads; here the
    spec is signed as a whole, but for the names of volumes that nothing else is known of.
    """

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """Return what counts of a pod beside its namespace and spec; None when this pod is a case of its own.

        It is asked about every pod, also when the nodes were evaluated before: pods that other nodes' pods,
        Services or Reservations have to do with can be found out here.
        """
        return ()
