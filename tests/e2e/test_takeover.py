"""Two replicas of the scheduler's Deployment: one decides, and the other knows what it needs to go on."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.installation import NAMESPACE, Component, Installation
from tests.eventually import eventually

pytestmark = pytest.mark.timeout(900)

NODE = "n1"


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[Installation]:
    with Installation("full", tmp_path) as made:
        # No server answers the webhooks here.
        for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
            made.plane.kubectl("delete", kind, "--all")
        made.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        capacity = {"cpu": "4", "memory": "8Gi", "pods": "3"}
        ready = {"type": "Ready", "status": "True", "reason": "test"}
        status = {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}
        made.write_status(f"node/{NODE}", status)
        yield made


def holder(installation: Installation) -> str:
    lease = installation.get("lease", "koordpy-scheduler", "-n", NAMESPACE)
    return str(lease["spec"].get("holderIdentity") or "") if lease else ""


def schedule(installation: Installation, name: str, asked: Component) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "koord-scheduler", "containers": [container]},
    }
    installation.plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    bound = eventually(lambda: installation.get("pod", name)["spec"].get("nodeName") == NODE)
    assert bound, asked.logs()

    def outcome() -> tuple[str, str]:
        [decision, *_] = asked.debug(f"/apis/v1/decisions/default/{name}")
        return decision["outcome"], decision["node"]

    # The pod is bound before koordpy has the answer that it is.
    assert eventually(lambda: outcome() == ("bound", NODE)), outcome()


def test_the_replica_that_takes_over_knows_what_was_handed_out(installation: Installation) -> None:
    first, _ = installation.scheduler()
    assert eventually(lambda: holder(installation) != ""), first.logs()
    leader = holder(installation)
    second, _ = installation.scheduler()
    for name in ("a", "b"):
        schedule(installation, name, first)
    assert holder(installation) == leader
    first.stop()
    schedule(installation, "c", second)
    assert holder(installation) not in ("", leader)
    assert len(second.debug(f"/apis/v1/nodes/{NODE}")["pods"]) == 3
    assert second.debug(f"/apis/v1/nodes/{NODE}")["requested"]["MilliCPU"] == 3000
