"""What the workload auditor is told about gangs."""

from typing import Any

from koordpy.scheduling.interface.auditor import NoAuditor
from koordpy.scheduling.interface.cycle_state import CycleState

from .gang_world import GangWorld, member, pod_group


class Recording(NoAuditor):
    """Remembers what it is told, as texts."""

    enabled = True

    def __init__(self) -> None:
        self.told: list[str] = []

    def gang_added(self, group: str, min_member: int) -> None:
        self.told.append(f"added {group} {min_member}")

    def gang_deleted(self, group: str) -> None:
        self.told.append(f"deleted {group}")

    def gang_happened(self, group: str, pod: Any, event: Any, message: str = "") -> None:
        self.told.append(f"{event} {group} {message}")

    def gang_gated(self, group: str, pod: Any, gated: bool) -> None:
        self.told.append(f"gated {group} {gated}")

    def gang_result(self, group: str, event: Any, message: str = "") -> None:
        self.told.append(f"{event} {group}")


def audited() -> tuple[GangWorld, Recording]:
    world, auditor = GangWorld(), Recording()
    world.handle.auditor = auditor
    return world, auditor


def test_a_gang_of_annotated_pods_is_recorded_from_its_first_pod_to_its_last() -> None:
    world, auditor = audited()
    pods = [member("a"), member("b")]
    world.put(*pods)
    assert auditor.told == [
        "added ns/g 2",
        "gated ns/g False",
        "gated ns/g False",
        "gangMinMemberSatisfied ns/g ns/g",
    ]
    auditor.told.clear()
    for pod in pods:
        world.plugin.permit(CycleState(), pod, "n1")
    assert auditor.told == ["scheduled ns/g"]
    auditor.told.clear()
    world.delete(*pods)
    assert set(auditor.told) == {"deleted ns/g"}


def test_the_record_of_a_pod_group_ends_when_it_is_no_longer_pending() -> None:
    world, auditor = audited()
    world.put(pod_group())
    world.put(pod_group(status={"phase": "Scheduling"}))
    assert auditor.told == ["added ns/g 2"]
    world.put(pod_group(status={"phase": "Scheduled"}))
    assert auditor.told == ["added ns/g 2", "deleted ns/g"]


def test_gates_that_come_off_are_recorded() -> None:
    world, auditor = audited()
    world.put(member("a", spec={"schedulingGates": [{"name": "example.com/wait"}]}))
    world.put(member("a"))
    assert auditor.told == ["added ns/g 2", "gated ns/g True", "gated ns/g False"]
