"""Table cells, as shown by `kubectl get`."""

from datetime import UTC, datetime
from typing import Any

import pytest

from koordpy.embedded.apiserver.kinds import columns

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def cells(kind: str, document: dict[str, Any]) -> dict[str, Any]:
    document.setdefault("metadata", {"name": "x", "creationTimestamp": "2026-01-01T11:00:00Z"})
    return {column.name: column.cell(document, NOW) for column in columns.of(kind)}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 60, "3h1m"),
        (8 * 3600 + 60, "8h"),
        (48 * 3600, "2d"),
        (50 * 3600, "2d2h"),
        (8 * 86400, "8d"),
        (3 * 365 * 86400, "3y"),
        (-5, "<invalid>"),
    ],
)
def test_duration_is_written_as_kubectl_writes_it(seconds: int, text: str) -> None:
    assert columns.duration(seconds) == text


def test_pod_shows_ready_containers_and_restarts() -> None:
    statuses = [{"ready": True, "restartCount": 2}, {"ready": False, "restartCount": 1}]
    status = {"phase": "Running", "containerStatuses": statuses}
    found = cells("Pod", {"spec": {"containers": [{}, {}], "nodeName": "n"}, "status": status})
    assert (found["Ready"], found["Status"], found["Restarts"]) == ("1/2", "Running", "3")
    assert (found["Age"], found["Node"]) == ("60m", "n")


def test_pod_that_is_gated_or_terminating_says_so() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    status = {"phase": "Pending", "conditions": [gated]}
    assert cells("Pod", {"spec": {}, "status": status})["Status"] == "SchedulingGated"
    metadata = {"name": "x", "deletionTimestamp": "2026-01-01T11:00:00Z"}
    assert cells("Pod", {"metadata": metadata, "spec": {}, "status": {}})["Status"] == "Terminating"


def test_node_shows_readiness_and_roles() -> None:
    metadata = {"name": "x", "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "master"}}
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    found = cells("Node", {"metadata": metadata, "spec": {"unschedulable": True}, "status": status})
    assert (found["Status"], found["Roles"]) == ("Ready,SchedulingDisabled", "master,worker")


def test_time_that_is_none_is_unknown() -> None:
    assert columns.since("soon", NOW) == "<unknown>"
