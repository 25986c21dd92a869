"""What a pod takes between filter and bind, beside kube-scheduler.

In koord-scheduler, Reserve of one pod runs before PreFilter of the next. kube-scheduler filters the next pod
while the bind call of the previous one is still on its way, so a plugin whose PreFilter compares with what is
used (quotas, say) would let both pass, and refuse one of them only in Reserve. With this point it counts a
pod from its filter call on.
"""

from koordpy.api.core import Pod

from .cycle_state import CycleState


class TentativeReserve:
    """Counts pods that have passed filter and are about to be bound. Runs where Reserve is enabled."""

    def reserve_tentatively(self, state: CycleState, pod: Pod) -> None:
        """Count a pod that has found a node, until `unreserve_tentatively`. Counting twice counts once."""
        raise NotImplementedError

    def unreserve_tentatively(self, pod: Pod) -> None:
        """Stop counting a pod, just before its Reserve, or because it is not bound after all.

        Called for unknown pods too.
        """
        raise NotImplementedError
