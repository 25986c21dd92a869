from typing import Any

import pytest

from koordpy.api import batch_resources
from koordpy.api.core import Pod
from koordpy.api.scheme import decode


def limited(*limits: str | None, **spec: Any) -> Pod:
    listed = [{"name": "c", "resources": {"limits": {"cpu": each} if each else {}}} for each in limits]
    return decode(Pod, {"spec": {"containers": listed, **spec}})


@pytest.mark.parametrize(
    ("pod", "limit"),
    [
        (limited("1", "500m"), 1500),
        (limited("1", None), -1),
        (limited("1", "0"), -1),
        (limited(), -1),
        (limited("1", None, resources={"limits": {"cpu": "2"}}), 2000),
        (limited("1", resources={"limits": {"cpu": "0"}}), -1),
        (limited("1", initContainers=[{"name": "i", "resources": {"limits": {"cpu": "3"}}}]), 3000),
        (limited("1", initContainers=[{"name": "i"}]), -1),
    ],
)
def test_cpu_limit_of_a_pod(pod: Pod, limit: int) -> None:
    assert batch_resources.pod_milli_cpu_limit(pod) == limit


def test_batch_amounts_are_those_of_long_running_containers() -> None:
    batch = {
        "resources": {
            "requests": {"kubernetes.io/batch-cpu": "500"},
            "limits": {"kubernetes.io/batch-cpu": "1k"},
        }
    }
    sidecar, init = {"name": "s", "restartPolicy": "Always", **batch}, {"name": "i", **batch}
    pod = decode(Pod, {"spec": {"containers": [{"name": "c", **batch}], "initContainers": [sidecar, init]}})
    assert batch_resources.pod_batch_request(pod, "kubernetes.io/batch-cpu") == 1000
    assert batch_resources.pod_batch_limit(pod, "kubernetes.io/batch-cpu") == 2000
    assert batch_resources.pod_batch_limit(pod, "kubernetes.io/batch-memory") == -1
