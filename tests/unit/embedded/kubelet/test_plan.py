"""What pods will do, from their commands and annotations."""

from typing import Any

import pytest

from koordpy.embedded.kubelet.plan import BRIEFLY, plan_of


def pod(*command: str, restart: str = "Always", owner: str = "", **notes: str) -> dict[str, Any]:
    annotations = {f"kubelet.koordpy.dev/{key.replace('_', '-')}": value for key, value in notes.items()}
    container: dict[str, Any] = {"name": "c", "image": "i"}
    if command:
        container["command"] = list(command)
    owners = [{"kind": owner}] if owner else []
    return {
        "metadata": {"annotations": annotations, "ownerReferences": owners},
        "spec": {"restartPolicy": restart, "containers": [container]},
    }


@pytest.mark.parametrize(
    ("document", "run_for", "code"),
    [
        (pod(), None, 0),
        (pod(restart="Never"), None, 0),
        (pod(owner="Job", restart="Never"), BRIEFLY, 0),
        (pod("sleep", "30"), 30.0, 0),
        (pod("/bin/sleep", "2m"), 120.0, 0),
        (pod("sleep", "infinity"), None, 0),
        (pod("sleep", "infinity", owner="Job", restart="Never"), None, 0),
        (pod("sh", "-c", "sleep 5; echo done; exit 3"), 5.0, 3),
        (pod("sh", "-c", "while true; do sleep 5; done"), None, 0),
        (pod("bash", "-c", "date; echo hello"), BRIEFLY, 0),
        (pod("false"), BRIEFLY, 1),
        (pod("perl", "-e", "print 1", restart="Never"), BRIEFLY, 0),
        (pod("perl", "-e", "print 1"), None, 0),
        (pod("sleep", "5", run_for="1m", exit_code="7"), 60.0, 7),
        (pod("sleep", "5", run_for="never"), None, 0),
        (pod("sleep", "5", run_for="nonsense", exit_code="999"), 5.0, 0),
    ],
)
def test_how_long_a_container_runs_and_how_it_ends(
    document: dict[str, Any], run_for: float | None, code: int
) -> None:
    [container] = plan_of(document).containers
    assert (container.run_for, container.exit_code) == (run_for, code)


def test_when_a_container_is_ready() -> None:
    probed = pod()
    probed["spec"]["containers"][0]["readinessProbe"] = {"initialDelaySeconds": 7}
    assert plan_of(probed).containers[0].ready_after == 7.0
    assert plan_of(pod(ready_after="never")).containers[0].ready_after is None
    assert plan_of(pod()).containers[0].ready_after == 0.0


def test_init_containers_come_first_and_sidecars_do_not_end() -> None:
    document = pod()
    document["spec"]["initContainers"] = [
        {"name": "side", "restartPolicy": "Always", "command": ["sleep", "1"]},
        {"name": "init", "command": ["sh", "-c", "exit 2"]},
    ]
    side, init, main = plan_of(document).containers
    assert (side.is_init, side.is_sidecar, side.run_for) == (True, True, None)
    assert (init.is_init, init.is_sidecar, init.exit_code) == (True, False, 2)
    assert not main.is_init
