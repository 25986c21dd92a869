"""Everything that an extender keeps of a cluster, in a form in which two of them can be compared."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.informers import Informers
from koordpy.cluster.pod_counts import PodCounts
from koordpy.lib.clock import Clock
from koordpy.scheduling.extender.extender import Extender, create
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.profiles import config
from koordpy_plugins.scheduling.loadaware.plugin import LoadAwareScheduling
from koordpy_plugins.scheduling.reservation.plugin import Reservation
from tests.eventually import PATIENCE
from tests.integration.reservations.stage import both
from tests.integration.service.stage import picture

Picture = dict[str, Any]


async def rebuilt(document: Picture, client: Client, clock: Clock) -> Picture:
    """Return what an extender with a configuration would know that were started now."""
    fresh = Cluster(clock)
    extender = create(config.read(document), fresh, None)
    async with Informers(fresh, client) as informers:
        await informers.wait_synced(PATIENCE)
        return memory(extender)


def memory(extender: Extender) -> Picture:
    """Return what an extender knows: of nodes, loads, reservations, nominations."""
    cluster = extender.handle.cluster
    found: Picture = {"nodes": picture(cluster), "pods": _kinds_of_pods(cluster)}
    nominator = extender.handle.nominator
    names = nominator.node_names
    found["nominated"] = {name: sorted(pod.metadata.uid for pod in nominator.pods_on(name)) for name in names}
    for name, framework in extender.profiles.frameworks.items():
        found[name] = _of_plugins(framework, cluster)
    return found


def _of_plugins(framework: Framework, cluster: Cluster) -> Picture:
    found: Picture = {}
    for plugin in framework.plugins:
        if isinstance(plugin, LoadAwareScheduling):
            found["loads"] = {"cache": plugin.cache.snapshot(), "columns": plugin.columns.snapshot()}
        elif isinstance(plugin, Reservation):
            found["reservations"] = both(cluster, plugin.cache)
            found["withheld"] = _withheld(plugin, cluster)
    return found


def _withheld(plugin: Reservation, cluster: Cluster) -> Picture:
    """Return what reservations take, by node, and what is in the book of the offered ones."""
    table, withheld, book = cluster.nodes, plugin.withheld, plugin.withheld.book
    found: Picture = {}
    for name in [*table.all().names]:
        row = table.row_of(name)
        found[name] = {
            "held": _amounts(cluster, withheld.held[row]),
            "held_nonzero": withheld.held_nonzero[row].tolist(),
            "given": _amounts(cluster, withheld.given[row]),
            "given_nonzero": withheld.given_nonzero[row].tolist(),
            "flags": [bool(flags[row]) for flags in (withheld.used, withheld.allocated, withheld.offering)],
        }
    slots: Picture = {}
    for uid, info in plugin.cache.infos.items():
        slot = book.slot_of(uid)
        if slot is not None:
            assert book.info(slot) is info
            row = int(book.row[slot])
            slots[uid] = {
                "node": table.name_of(row) if row >= 0 else "",
                "room": _amounts(cluster, np.where(book.named[slot], book.room[slot], 0)),
                **{
                    name: _amounts(cluster, getattr(book, name)[slot])
                    for name in ("held", "allocated", "available", "most")
                },
                "flags": [bool(each[slot]) for each in (book.open, book.used_up, book.exact)],
            }
    assert sum(info is not None for info in book.infos) == len(slots), "the book has slots of nothing"
    return {"nodes": found, "slots": slots, "groups": len(plugin.cache.owners)}


def _kinds_of_pods(cluster: Cluster) -> list[tuple[Any, ...]]:
    """Return how many pods of which labels are counted on which node."""
    table, counts = cluster.nodes, cluster.shared(PodCounts)
    kinds = []
    for kind in counts._kinds.values():
        rows = sorted((table.name_of(row), number) for row, number in kind.rows.items())
        kinds.append((kind.namespace, sorted(kind.labels.items()), kind.terminating, rows))
    return sorted(kinds)


def _amounts(cluster: Cluster, cells: Any) -> dict[str, int]:
    names: Iterable[str] = cluster.nodes.resources.names
    return {name: amount for name, amount in zip(names, cells.tolist(), strict=False) if amount}


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Return where two pictures differ, one line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = sorted({*ours, *theirs}, key=str)
        return [
            line
            for key in keys
            for line in differences(ours.get(key, "nothing"), theirs.get(key, "nothing"), f"{path}/{key}")
        ]
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [line for index, pair in pairs for line in differences(*pair, f"{path}/{index}")]
    return [] if ours == theirs else [f"{path}: {ours}, a rebuild gives {theirs}"]


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
    for framework in extender.profiles.frameworks.values():
        for plugin in framework.plugins:
            if isinstance(plugin, Reservation):
                found += [f"{uid} nominated" for uid in plugin.nominations._of if uid not in waiting]
    return sorted(found)
