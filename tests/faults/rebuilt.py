"""Everything that an extender keeps of a cluster, in a form in which two of them can be compared."""

from typing import Any

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.informers import Informers
from koordpy.cluster.pod_counts import PodCounts
from koordpy.lib.clock import Clock
from koordpy.scheduling.extender.extender import Extender, create
from koordpy.scheduling.profiles import config
from koordpy.testing.rebuild import snapshots
from koordpy_plugins.scheduling.reservation.plugin import Reservation
from tests.eventually import PATIENCE

Picture = dict[str, Any]


async def rebuilt(document: Picture, client: Client, clock: Clock) -> Picture:
    """Return what an extender with a configuration would know that were started now."""
    fresh = Cluster(clock)
    extender = create(config.read(document), fresh, None)
    async with Informers(fresh, client) as informers:
        await informers.wait_synced(PATIENCE)
        return memory(extender)


def memory(extender: Extender) -> Picture:
    """Return what an extender knows: all derived state of its cluster, and who is nominated where."""
    cluster = extender.handle.cluster
    cluster.shared(PodCounts)  # which is made by the first pod with affinities or spread constraints
    nominator = extender.handle.nominator
    names = nominator.node_names
    return {
        "nominated": {name: sorted(pod.metadata.uid for pod in nominator.pods_on(name)) for name in names},
        **snapshots(cluster),
    }


def leftovers(extender: Extender) -> list[str]:
    """Return what is still kept of pods that nobody schedules any more; it should be nothing.

    Ask some time after the last bind: attempts are kept for as long as kube-scheduler may come back to them.
    """
    pods = extender.handle.cluster.store(Pod)
    waiting = {pod.metadata.uid for pod in pods if not pod.spec.node_name and not pod.is_terminal}
    attempts = [attempt.pod.metadata.uid for attempt in extender.attempts]
    found = [f"attempt of {uid}" for uid in attempts if extender.attempts.get(uid) is not None]
    found += [f"bind of {uid} under way" for uid in extender.binds._running]
    found += [f"bind of {bound.pod.metadata.uid} unconfirmed" for bound in extender.binds._bound]
    found += [
        f"{waiting_pod.pod.metadata.uid} waits in Permit" for waiting_pod in extender.handle.waiting_pods
    ]
    found += [f"{uid} is thought to wait" for uid in extender.histories._waiting if uid not in waiting]
    found += [f"{uid} planned" for uid in extender.plans._of]
    for shared in extender.handle.cluster.states:
        found += [f"{what} unconfirmed in {shared}" for what in shared.state.unconfirmed()]
    for framework in extender.profiles.frameworks.values():
        for plugin in framework.plugins:
            if isinstance(plugin, Reservation):
                found += [f"{uid} nominated" for uid in plugin.nominations._of if uid not in waiting]
    return sorted(found)
