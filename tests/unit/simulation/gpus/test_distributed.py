"""What a sweep in pods tells while its Job does not go on; a control plane that runs pods does the rest."""

import asyncio
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import Resource, resource_of
from koordpy.cluster.client import Client
from koordpy.embedded.apiserver import ApiServer
from koordpy.simulation.gpus import distributed
from koordpy.simulation.gpus.distributed import Sweep
from koordpy.simulation.inprocess import ServerChannel

OF = Sweep("koordpy-sweep-x", "default", "koordpy:1", 2)
JOBS = Resource("batch", "v1", "jobs", "Job", True, KubeObject)
WAITING = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}


async def follow(pod_status: dict[str, Any], job_status: dict[str, Any]) -> tuple[int, str]:
    """Return what is told first of a Job with a pod."""
    server = ApiServer()
    await server.load()
    client = Client(ServerChannel(server))
    labels = {"job-name": OF.name}
    template = {
        "metadata": {"labels": labels},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    }
    job = {"metadata": {"name": OF.name}, "spec": {"completions": 2, "template": template}}
    await client.create_raw(JOBS, "default", job)
    await client.patch_raw(JOBS, "default", OF.name, {"status": job_status}, subresource="status")
    for name, of_pod in (("other", {}), ("p", labels)):
        document = {**template, "metadata": {"name": name, "labels": of_pod}}
        await client.create_raw(resource_of(Pod), "default", document)
        await client.patch_status(Pod, "default", name, {"status": pod_status})
    told: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
    following = asyncio.create_task(distributed.follow(client, OF, lambda *found: told.put_nowait(found)))
    try:
        return await told.get()
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (
            {"phase": "Pending", "containerStatuses": [{"name": "c", **WAITING}]},
            "pod default/p does not start: ImagePullBackOff: no such image",
        ),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes"}]},
            "pod default/p has no node: 0/1 nodes",
        ),
        ({"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}]}, ""),
        ({}, ""),
    ],
)
async def test_a_pod_that_cannot_start_is_told(status: dict[str, Any], expected: str) -> None:
    assert await follow(status, {"active": 1, "succeeded": 1}) == (1, expected)


async def test_pods_that_run_are_not_asked() -> None:
    status = {"containerStatuses": [{"name": "c", **WAITING}]}
    assert await follow(status, {"active": 1, "ready": 1}) == (0, "")
