from typing import Any

import pytest

from .pods import container, pod, refusal

DEVICES = "scheduling.koordinator.sh/device-allocated"
CPUS = "scheduling.koordinator.sh/resource-status"
HELD = {DEVICES: '{"gpu":[{"minor":0}]}', CPUS: '{"cpuset":"0-3"}', "other": "a"}


def refused(
    old: dict[str, str],
    new: dict[str, str],
    node: str = "n",
    phase: str = "Running",
    operation: str = "UPDATE",
    gate: bool = True,
) -> str:
    """Return why an update of a pod's annotations is refused."""
    before, after = (pod(container(), annotations=each, nodeName=node) for each in (old, new))
    before["status"] = {"phase": phase}
    return refusal(after, gates={"ProtectPodAllocation": gate}, operation=operation, oldObject=before)


@pytest.mark.parametrize("name", [DEVICES, CPUS])
@pytest.mark.parametrize("value", ["{}", None])
def test_what_a_bound_pod_was_allocated_stays(name: str, value: str | None) -> None:
    without = {key: text for key, text in HELD.items() if key != name}
    changed = without if value is None else without | {name: value}
    assert f"annotation {name} of a bound pod" in refused(HELD, changed)
    assert f"annotation {name} of a bound pod" in refused(without, HELD)


def test_other_annotations_may_change() -> None:
    assert refused(HELD, HELD | {"other": "b"}) == ""
    assert refused({}, {"other": "b"}) == ""


@pytest.mark.parametrize(
    "case",
    [{"node": ""}, {"phase": "Succeeded"}, {"phase": "Failed"}, {"operation": "CREATE"}, {"gate": False}],
)
def test_pods_that_hold_nothing_may_say_anything(case: dict[str, Any]) -> None:
    assert refused(HELD, {}, **case) == ""
