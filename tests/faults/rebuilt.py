"""The whole state of an extender, in a form that can be compared with that of another one."""

from typing import Any

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.informers import Informers
from koordpy.cluster.pod_counts import PodCounts
from koordpy.lib.clock import Clock
from koordpy.scheduling.extender.extender import Extender, create
from koordpy.scheduling.profiles import config
from koordpy.testing.rebuild import settle, snapshots
from koordpy_plugins.scheduling.reservation.plugin import Reservation
from tests.eventually import PATIENCE

Picture = dict[str, Any]


async def rebuilt(document: Picture, client: Client, clock: Clock) -> Picture:
    """Return the state of a new extender with the same configuration.

    It is settled: compare it with a cluster on which `koordpy.testing.rebuild.settle` was called.
    """
    fresh = Cluster(clock)
    extender = create(config.read(document), fresh, None)
    async with Informers(fresh, client) as informers:
        await informers.wait_synced(PATIENCE)
        settle(fresh)
        return memory(extender)


def memory(extender: Extender) -> Picture:
    """Return the state of an extender: all derived state of its cluster, and nominations."""
    cluster = extender.handle.cluster
    cluster.shared(PodCounts)  # which is created by the first pod with affinities or spread constraints
    nominator = extender.handle.nominator
    names = nominator.node_names
    return {
        "nominated": {name: sorted(pod.metadata.uid for pod in nominator.pods_on(name)) for name in names},
        **snapshots(cluster),
    }


def leftovers(extender: Extender) -> list[str]:
    """Return state of pods that are no longer being scheduled; it should be empty.

    Call it some time after the last bind: attempts are kept as long as kube-scheduler may continue them.
    """
    pods = extender.handle.cluster.store(Pod)
    waiting = {pod.metadata.uid for pod in pods if not pod.spec.node_name and not pod.is_terminal}
    attempts = [attempt.pod.metadata.uid for attempt in extender.attempts]
    found = [f"attempt of {uid}" for uid in attempts if extender.attempts.get(uid) is not None]
    found += [f"bind of {uid} in progress" for uid in extender.binds._running]
    found += [f"bind of {uid} unconfirmed" for uid in extender.binds.bound.uids]
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
