import msgspec
import pytest

from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.lib.clock import FakeClock
from koordpy.scheduling.cycle.queue import SchedulingQueue
from koordpy.scheduling.interface.waiting_pods import WaitingPods
from koordpy.scheduling.reservations.reserve_pods import ReservePods
from tests.unit.scheduling.worlds import NOW

from .stage import reservation

UID = "uid-r"


def of(node: str = "", phase: str = "", scheduler: str = "ours", **changes: object) -> Reservation:
    document = reservation("r", pod={"schedulerName": scheduler}, ttl="1h")
    document["metadata"] |= {"uid": UID, **changes}
    document["status"] = {"nodeName": node, "phase": phase}
    return decode(Reservation, document)


class Follower:
    def __init__(self) -> None:
        self.queue = SchedulingQueue(FakeClock(NOW))
        self.in_hand: set[str] = set()
        self.dropped: list[str] = []
        self.changes = 0
        self.reserve_pods = ReservePods(
            self.queue,
            WaitingPods(),
            is_ours=lambda reservation: reservation.scheduler_name == "ours",
            in_hand=self.in_hand.__contains__,
            dropped=self.dropped.append,
            on_change=self._changed,
        )

    def _changed(self) -> None:
        self.changes += 1

    @property
    def pool(self) -> str | None:
        return self.queue.pool_of(UID)

    def park(self) -> None:
        """Fail the next attempt."""
        item = self.queue.pop()
        assert item is not None
        self.queue.requeue(item, rejected=True)
        assert self.pool == "unschedulable"


PENDING, FOREIGN = of(), of(scheduler="another")
AVAILABLE = of("n1", "Available")
FAILED, SUCCEEDED = of("n1", "Failed"), of("n1", "Succeeded")


@pytest.mark.parametrize(
    ("added", "queued"),
    [
        (PENDING, True),
        (of(phase="Pending"), True),
        (FOREIGN, False),
        (AVAILABLE, False),
        (of(phase="Failed"), False),
        (of(deletionTimestamp="2026-03-01T12:00:00Z"), False),
        (msgspec.structs.replace(PENDING, spec=msgspec.structs.replace(PENDING.spec, owners=[])), False),
        (msgspec.structs.replace(PENDING, spec=msgspec.structs.replace(PENDING.spec, ttl=None)), False),
        (msgspec.structs.replace(PENDING, spec=msgspec.structs.replace(PENDING.spec, template=None)), False),
    ],
)
def test_which_new_reservations_are_queued(added: Reservation, queued: bool) -> None:
    follower = Follower()
    follower.reserve_pods.added(added)
    assert (follower.pool == "active") is queued


@pytest.mark.parametrize(
    ("old", "new", "queued"),
    [
        (PENDING, AVAILABLE, False),
        (AVAILABLE, FAILED, False),
        (AVAILABLE, PENDING, True),
        (AVAILABLE, FOREIGN, False),
        (PENDING, FOREIGN, False),
        (FOREIGN, PENDING, True),
        (PENDING, of(phase="Failed"), False),
        (FAILED, SUCCEEDED, False),
    ],
)
def test_which_changed_reservations_are_queued(old: Reservation, new: Reservation, queued: bool) -> None:
    follower = Follower()
    follower.reserve_pods.added(old)
    follower.reserve_pods.updated(old, new)
    assert (follower.pool == "active") is queued


def test_a_status_written_after_a_failed_attempt_leads_to_no_other_attempt() -> None:
    follower = Follower()
    follower.reserve_pods.added(PENDING)
    follower.park()
    condition = {"type": "Scheduled", "status": "False", "message": "no room"}
    document = msgspec.to_builtins(PENDING)
    document["status"] = {"conditions": [condition]}
    follower.reserve_pods.updated(PENDING, decode(Reservation, document))
    assert follower.pool == "unschedulable"


def test_a_changed_spec_leads_to_another_attempt() -> None:
    follower = Follower()
    follower.reserve_pods.added(PENDING)
    follower.park()
    spec = msgspec.structs.replace(PENDING.spec, allocate_policy="Restricted")
    follower.reserve_pods.updated(PENDING, msgspec.structs.replace(PENDING, spec=spec))
    assert follower.pool in ("active", "backoff")


def test_a_reservation_being_bound_is_not_queued_again() -> None:
    follower = Follower()
    follower.in_hand.add(UID)
    follower.reserve_pods.updated(PENDING, of(annotations={"a": "b"}))
    assert follower.pool is None


def test_a_deleted_reservation_frees_resources_for_another() -> None:
    follower = Follower()
    follower.reserve_pods.added(PENDING)
    follower.park()
    other = of("n1", "Available", uid="other", name="other")
    changes = follower.changes
    follower.reserve_pods.deleted(other)
    assert follower.pool in ("active", "backoff")
    assert follower.changes > changes


def test_a_deleted_reservation_leaves_the_queue() -> None:
    follower = Follower()
    follower.reserve_pods.added(PENDING)
    follower.reserve_pods.deleted(PENDING)
    assert follower.pool is None
    assert follower.dropped == [UID]
