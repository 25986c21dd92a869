"""The PodGroup controller: counts the pods of PodGroups, and says how far they are.

Koordinator runs it in the leading scheduler. Source: Koordinator,
`pkg/scheduler/plugins/coscheduling/controller/podgroup.go`.
"""

import logging

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_id
from koordpy.api.koordinator import PodGroup
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.cluster.errors import NotFound
from koordpy.controllers.queue import WorkQueue
from koordpy.controllers.reconcile import ReconcileError, reconcile_forever
from koordpy.scheduling.interface.handle import Handle

from ..state.gang_cache import GangCache
from .status import is_settled, next_status, patch_between

log = logging.getLogger(__name__)

NAME = "PodGroupController"


class PodNotFound(Exception):
    """A member of a gang has been deleted, and the gang does not know it yet."""


class PodGroupController:
    """Runs in the leader; every process follows its objects."""

    name = NAME

    def __init__(self, handle: Handle, cache: GangCache, workers: int) -> None:
        self._handle, self._cache, self._workers = handle, cache, workers
        self._pod_groups, self._pods = handle.cluster.store(PodGroup), handle.cluster.store(Pod)
        self.queue = WorkQueue(NAME, handle.clock)

    async def run(self) -> None:
        """Run until cancelled, starting with every PodGroup."""
        self.queue = WorkQueue(NAME, self._handle.clock)
        groups = self._pod_groups.subscribe(self.pod_group_seen, self._pod_group_updated)
        pods = self._pods.subscribe(self.pod_seen, self._pod_updated)
        try:
            await reconcile_forever(self.queue, self.sync, workers=self._workers)
        finally:
            self._pod_groups.unsubscribe(groups)
            self._pods.unsubscribe(pods)

    def pod_group_seen(self, pod_group: PodGroup) -> None:
        """Queue a PodGroup, unless nothing more is expected of it."""
        if not is_settled(pod_group):
            self.queue.add(pod_group.metadata.key)

    def pod_seen(self, pod: Pod) -> None:
        """Queue the PodGroup of a pod."""
        pod_group = self._pod_groups.by_key(gang_id(pod))
        if pod_group is not None:
            self.pod_group_seen(pod_group)

    def _pod_group_updated(self, _: PodGroup, new: PodGroup) -> None:
        self.pod_group_seen(new)

    def _pod_updated(self, _: Pod, new: Pod) -> None:
        self.pod_seen(new)

    async def sync(self, key: str) -> None:
        """Take the status of one PodGroup a step further; what is gone is not retried."""
        try:
            await self.step(key)
        except (NotFound, PodNotFound) as gone:
            log.info("PodGroup %s is left as it is: %s", key, gone)

    async def step(self, key: str) -> None:
        """Take the status of one PodGroup a step further.

        Raises PodNotFound for a member that is being deleted, ApiError and ConnectionFailed, and
        ReconcileError without an API server.
        """
        pod_group = self._pod_groups.by_key(key)
        if pod_group is None:
            return
        gang = self._cache.gangs.get(key)
        children = {} if gang is None else gang.children
        pods = [self._live(child) for child in children.values()]
        bound = 0 if gang is None else len(gang.bound)
        status = next_status(pod_group, pods, bound, self._handle.clock.now())
        patch = patch_between(pod_group.status, status)
        if patch is None:
            return
        if self._handle.client is None:
            raise ReconcileError("there is no API server to write to")
        meta = pod_group.metadata
        await self._handle.client.patch(PodGroup, meta.namespace, meta.name, patch)

    def _live(self, child: Pod) -> Pod:
        """Return the present object of a member: the gang has the one from before it finished."""
        pod = self._pods.by_key(child.metadata.key)
        if pod is None and not is_reserve_pod(child):
            raise PodNotFound(f'pod "{child.metadata.name}" not found')
        return pod or child
