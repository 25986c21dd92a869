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


def test_pod_shows_when_it_restarted_last_and_why_it_waits() -> None:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T11:55:00Z"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}}
    statuses = [{"ready": False, "restartCount": 3, "state": waiting, "lastState": ended}]
    found = cells("Pod", {"spec": {"containers": [{}]}, "status": {"containerStatuses": statuses}})
    assert (found["Status"], found["Restarts"]) == ("CrashLoopBackOff", "3 (5m ago)")


def test_pod_shows_the_init_container_that_runs() -> None:
    done = {"name": "a", "state": {"terminated": {"exitCode": 0}}}
    status = {"phase": "Pending", "initContainerStatuses": [done, {"name": "b", "state": {"running": {}}}]}
    spec = {"containers": [{}], "initContainers": [{"name": "a"}, {"name": "b"}]}
    assert cells("Pod", {"spec": spec, "status": status})["Status"] == "Init:1/2"


def test_finished_pod_that_is_deleted_shows_how_it_ended() -> None:
    metadata = {"name": "x", "deletionTimestamp": "2026-01-01T11:00:00Z"}
    ended = [{"state": {"terminated": {"exitCode": 2}}}]
    status = {"phase": "Failed", "containerStatuses": ended}
    assert cells("Pod", {"metadata": metadata, "spec": {}, "status": status})["Status"] == "ExitCode:2"


def test_service_shows_its_ports_and_addresses() -> None:
    ports = [{"port": 80, "protocol": "TCP"}, {"port": 53, "nodePort": 30053, "protocol": "UDP"}]
    found = cells("Service", {"spec": {"type": "LoadBalancer", "clusterIP": "10.0.0.1", "ports": ports}})
    assert (found["External-IP"], found["Port(s)"]) == ("<pending>", "80/TCP,53:30053/UDP")


def test_autoscaler_shows_metrics_beside_their_targets() -> None:
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50}}}
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "metrics": [metric], "maxReplicas": 5}
    found = cells("HorizontalPodAutoscaler", {"spec": spec})
    assert (found["Reference"], found["Targets"]) == ("Deployment/web", "cpu: <unknown>/50%")


def test_job_shows_state_and_duration() -> None:
    conditions = [{"type": "Complete", "status": "True"}]
    times = {"startTime": "2026-01-01T11:00:00Z", "completionTime": "2026-01-01T11:00:30Z"}
    found = cells(
        "Job", {"spec": {"completions": 1}, "status": {"succeeded": 1, "conditions": conditions, **times}}
    )
    assert (found["Status"], found["Completions"], found["Duration"]) == ("Complete", "1/1", "30s")


def test_new_event_without_times_of_the_old_api_shows_when_it_was_seen() -> None:
    event = {"eventTime": "2026-01-01T11:59:00.000000Z", "lastTimestamp": None, "regarding": {"kind": "Pod"}}
    found = cells("Event", event)
    assert (found["Last Seen"], found["First Seen"], found["Object"]) == ("60s", "60s", "pod")
