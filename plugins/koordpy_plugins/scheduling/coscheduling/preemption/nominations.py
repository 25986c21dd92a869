"""The nominations of a job's members: which node each one is promised, in memory and in its status."""

import asyncio
from collections.abc import Mapping, Sequence

from koordpy.api.core import Pod
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.scheduling.interface.failure import JOB_PREEMPTION_FAILURE, JOB_PREEMPTION_SUCCESS
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.preemption import AT_ONCE, nominate, priority_of

from .preemptor import Preemptor, WaitingMember


class Nominations:
    """Writes nominations. Failed writes are reported, not repeated: the pods are retried anyway."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    async def set_all(
        self, pods: Sequence[Pod], nodes: Mapping[str, str], *, current: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Nominate pods to the nodes given by key; the others lose theirs. Return errors by key.

        `current` are the nominations as they are, if these are not the ones in the pods' statuses.
        """
        nominator = self._handle.nominator
        for pod in pods:
            node_name = nodes.get(pod.metadata.key, "")
            if node_name:
                nominator.add_if_pending(pod, node_name)
            else:
                nominator.delete(pod.metadata.uid)
        if current is None:
            current = {pod.metadata.key: pod.status.nominated_node_name for pod in pods}
        changed = [
            pod for pod in pods if current.get(pod.metadata.key, "") != nodes.get(pod.metadata.key, "")
        ]
        changed = [pod for pod in changed if not is_reserve_pod(pod)]  # those have no status
        client = self._handle.client
        if client is None or not changed:
            return {}
        failed: dict[str, str] = {}
        left = iter(changed)

        async def work() -> None:
            for pod in left:
                error = await nominate(client, pod, nodes.get(pod.metadata.key, ""))
                if error:
                    failed[pod.metadata.key] = error

        await asyncio.gather(*(work() for _ in range(min(AT_ONCE, len(changed)))))
        return failed

    def reject_waiting(self, waiting: Sequence[WaitingMember], message: str, *, succeeded: bool) -> None:
        """End the wait of members; with success they are nominated to the nodes on which they waited."""
        plugin = JOB_PREEMPTION_SUCCESS if succeeded else JOB_PREEMPTION_FAILURE
        for member in waiting:
            held = self._handle.waiting_pods.get(member.pod.metadata.uid)
            if held is not None:
                held.reject(plugin, message)

    def less_important(self, preemptor: Preemptor, node_names: Sequence[str]) -> list[Pod]:
        """Return the pods nominated to nodes with victims that may no longer fit there.

        As in Koordinator there are none if one of the nodes has no nominated pods at all.
        """
        lesser: list[Pod] = []
        for node_name in node_names:
            nominated = self._handle.nominator.pods_on(node_name)
            if not nominated:
                return []
            mine = priority_of(preemptor.trigger)
            lesser.extend(pod for pod in nominated if priority_of(pod) < mine)
        return lesser
