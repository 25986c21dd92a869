"""What a pod takes between filter and bind, beside kube-scheduler.

In koord-scheduler, Reserve of one pod runs before PreFilter of the next. kube-scheduler filters the next pod
while the bind call of the previous one is still on its way, so a plugin whose PreFilter compares with what is
used (quotas, say) would let both pass, and refuse one of them only in Reserve. With this point it counts a
pod from its filter call on.

If the filter call answers a single node, because koordpy chooses it or no other one fits, this point is not
needed: Reserve itself runs then, before the next filter call. If several are answered, the pod's node is not
known, and what a plugin allocates of nodes cannot be counted until the bind call.
"""

from koordpy.api.core import Pod

from .cycle_state import CycleState


class TentativeReserve:
    """Counts pods that have passed filter and are on no node yet. Runs where Reserve is enabled."""

    def reserve_tentatively(self, state: CycleState, pod: Pod) -> None:
        """Count a pod that has found nodes, until `unreserve_tentatively`. Counting twice counts once."""
        raise NotImplementedError

    def unreserve_tentatively(self, pod: Pod) -> None:
        """Stop counting a pod, just before its Reserve, or because it is not bound after all.

        Called for unknown pods too.
        """
        raise NotImplementedError
