"""The point that lets one pass over the nodes serve many pods."""

from collections.abc import Hashable
from enum import Enum
from typing import ClassVar

from koordpy.api.core import Pod


class Reach(Enum):
    """For which nodes a plugin's answers for a pod change when another pod is placed."""

    NOWHERE = "nowhere"
    NODE = "node"
    """For the node of that pod."""


class SignPlugin:
    """Signs pods: pods with the same signature get the same answers from the plugin.

    The results of PreFilter, Filter, PreScore and Score of the plugin for a node, and what they store in the
    state for Reserve and later, must then depend only on the pod's namespace, its spec and the result of
    `sign_pod`, and on that node with the pods on it. Anything else that they depend on may be up to half a
    second old. A pod is evaluated alone as soon as one plugin of its profile does not sign it.

    The pods of a job, which are placed one after the other, share more: after each of them only the answers
    that it may have changed are asked for again (`koordpy.scheduling.gangs.evaluations`).

    Source: Kubernetes, `SignPlugin`. There a plugin signs every part of the pod that it reads; here the spec
    is signed as a whole, except for volumes that consist of a name only.
    """

    reach: ClassVar[Reach] = Reach.NODE
    """How far a placed pod changes the answers for a pod that the plugin signs."""

    reads_requests: ClassVar[bool] = True
    """Whether pods that differ in nothing but their requests and limits may get different answers."""

    is_separable: ClassVar[bool] = False
    """Whether a pod that the plugin does not sign can be asked about again without asking other plugins.

    So it is if the answers depend on pods of other nodes, say, but on nothing that other plugins store in the
    state, and if the plugin shows other plugins neither other nodes nor another pod. While a pod of a job
    waits for its bind call, the state no longer has what the plugin wrote under the keys `PreFilter` and
    `PreScore` with its name.
    """

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """Return what matters of a pod besides its namespace and spec; None if it must be evaluated alone.

        It is called for every pod, also if the nodes were evaluated before: here a plugin can detect pods
        that depend on other nodes' pods, Services or Reservations.
        """
        return ()
