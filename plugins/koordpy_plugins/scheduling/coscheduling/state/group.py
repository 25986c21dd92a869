"""What the gangs of a group share.

Source: Koordinator, `pkg/scheduler/plugins/coscheduling/core/ganggroup.go` (`GangGroupInfo`).
"""

from collections.abc import Collection

from .. import metrics


class GangGroup:
    """Gangs that are scheduled together, usually a single one.

    A gang without a PodGroup or valid annotations has a group of its own without an ID, until it is known
    which gangs belong together.
    """

    __slots__ = (
        "attached",
        "binding_members",
        "gangs",
        "id",
        "is_initialized",
        "once_satisfied",
        "preempts_jointly",
        "representative",
        "waiting_gangs",
    )

    def __init__(self, id_: str = "", gangs: Collection[str] = (), *, is_initialized: bool = False) -> None:
        self.id = id_
        self.gangs = tuple(gangs)
        """The IDs of the gangs, sorted."""
        self.is_initialized = is_initialized
        self.attached = 0
        """The number of gangs that have this as their group."""
        self.once_satisfied = False
        """Whether any member has ever been bound."""
        self.waiting_gangs: set[str] = set()
        """The IDs of gangs with pods that wait in Permit."""
        self.representative = ""
        """The key of the only pod that may be queued on behalf of the group."""
        self.preempts_jointly = False
        """Whether pods were evicted for it already: from then on its members are checked together."""
        self.binding_members: frozenset[str] = frozenset()
        """The UIDs of the pods that were allowed to be bound together."""

    def add_waiting(self) -> None:
        """Record that pods of the group wait."""
        was_waiting = bool(self.waiting_gangs)
        self.waiting_gangs.update(self.gangs)
        if self.waiting_gangs and not was_waiting:
            metrics.WAITING_GANG_GROUPS.inc()

    def remove_waiting(self, gang: str) -> None:
        """Record that no pod of a gang waits any more."""
        was_waiting = bool(self.waiting_gangs)
        self.waiting_gangs.discard(gang)
        if not self.waiting_gangs:
            self._none_waits(was_waiting)

    def clear_waiting(self) -> None:
        """Record that no pod of the group waits any more."""
        was_waiting = bool(self.waiting_gangs)
        self.waiting_gangs.clear()
        self._none_waits(was_waiting)

    def _none_waits(self, was_waiting: bool) -> None:
        if was_waiting:
            metrics.WAITING_GANG_GROUPS.dec()
        self.binding_members = frozenset()

    def represented_by(self, pod_key: str) -> str:
        """Return the key of the representative, which the pod becomes if there is none."""
        self.representative = self.representative or pod_key
        return self.representative

    def drop_representative(self, pod_key: str) -> None:
        """Forget the representative if it is this pod."""
        if self.representative == pod_key:
            self.representative = ""
