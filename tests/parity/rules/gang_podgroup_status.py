"""One step of the PodGroup controller: what it queues, and what it patches."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.gang.membership import LABEL_POD_GROUP
from koordpy.api.gang.settings import GangDefaults
from koordpy.api.koordinator import PodGroup
from koordpy.api.meta import ObjectMeta
from koordpy.api.scheme import decode
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError
from koordpy.controllers.reconcile import reconcile_once
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.clock import FakeClock
from koordpy.lib.http1 import Response
from koordpy.scheduling.interface.handle import Handle
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.scheduling.coscheduling.controller.controller import PodGroupController, PodNotFound
from koordpy_plugins.scheduling.coscheduling.state.gang_cache import GangCache

NOW = datetime(2026, 7, 1, tzinfo=UTC)
NOW_TEXT = "2026-07-01T00:00:00Z"

ERRORS = {
    "notfound": (404, "NotFound", 'podgroups.scheduling.sigs.k8s.io "pg" not found'),
    "conflict": (
        409,
        "Conflict",
        'Operation cannot be fulfilled on podgroups.scheduling.sigs.k8s.io "pg": changed',
    ),
}


class Answers(ServerChannel):
    """The transport to an API server that answers every patch as the case says, and remembers it."""

    def __init__(self, error: str | None) -> None:
        super().__init__(ApiServer())
        self.error = error
        self.patches: list[tuple[Any, str]] = []

    async def request(self, method: str, path: str, *, body: bytes = b"", **more: Any) -> Response:
        self.patches.append((json.loads(body), more.get("content_type", "")))
        if self.error is None:
            return Response(200, [], b'{"metadata": {}}')
        code, reason, message = ERRORS[self.error]
        status = {"kind": "Status", "code": code, "reason": reason, "message": message}
        return Response(code, [], json.dumps(status).encode())


def run(case: dict[str, Any], tag: str | None) -> object:
    return asyncio.run(_run(case))


async def _run(case: dict[str, Any]) -> object:
    cluster, channel = Cluster(), Answers(case.get("patchError"))
    handle = Handle(cluster, clock=FakeClock(NOW), client=Client(channel, attempts=1))
    cache = GangCache(handle, GangDefaults())
    controller = PodGroupController(handle, cache, 1)
    if case["podGroup"] is not None:
        cluster.store(PodGroup).apply(decode(PodGroup, case["podGroup"]))
    for pod in case.get("pods", ()):
        cluster.store(Pod).apply(decode(Pod, pod))
    _know(cache, case.get("gang"))
    answer: dict[str, Any] = {}
    if "podEvent" in case:
        controller.pod_seen(decode(Pod, case["podEvent"]))
        answer["podEnqueue"] = controller.queue.pop() is not None
        controller = PodGroupController(handle, cache, 1)
    if case["podGroup"] is not None:
        controller.pod_group_seen(decode(PodGroup, case["podGroup"]))
        answer["enqueue"] = controller.queue.pop() is not None
        controller = PodGroupController(handle, cache, 1)
    answer["patch"] = None
    try:
        await controller.step(case["key"])
    except ApiError as error:
        answer["err"] = error.message
    except PodNotFound as error:
        answer["err"] = str(error)
    if channel.patches:
        patch, answer["patchType"] = channel.patches[0]
        if patch["status"].get("scheduleStartTime") == NOW_TEXT:
            patch["status"]["scheduleStartTime"] = "NOW"
        answer["patch"] = patch
    await reconcile_once(controller.queue, case["key"], controller.sync)
    answer["requeued"] = controller.queue.failures(case["key"]) > 0
    return answer


def _know(cache: GangCache, gang: dict[str, Any] | None) -> None:
    """Let the cache know the gang as the case describes it: no events lead to some of these."""
    for known in cache.gangs.values():
        for pods in (known.children, known.pending, known.bound):
            pods.clear()
    if gang is None:
        return
    for name in gang["children"]:
        meta = ObjectMeta(namespace="ns", name=name, labels={LABEL_POD_GROUP: "pg"})
        cache.add_pod(Pod(metadata=meta))
    known = cache._gang("ns/pg")
    known.bound = {str(index): Pod() for index in range(gang.get("bound", 0))}
