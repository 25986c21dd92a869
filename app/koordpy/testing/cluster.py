"""A cluster described by a test: no API server, no network, and a fixed time."""

from datetime import datetime

from koordpy.api.meta import KubeObject
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock

from .objects import NOW


def cluster(*objects: KubeObject, now: datetime = NOW) -> Cluster:
    """Return a completely listed cluster with these objects.

    Its clock is a `FakeClock`, which a test advances. Objects are added, changed and removed with `apply` and
    `discard` of `cluster.store(TYPE)`; all subscribers of the store are notified.
    """
    made = Cluster(FakeClock(now))
    _ = made.nodes  # the table follows the stores from its first use on
    for obj in objects:
        made.store(type(obj)).apply(obj)
    settle(made)
    return made


def settle(known: Cluster) -> None:
    """Mark every requested store as listed, including empty ones."""
    for store in known.stores:
        store.synced = True
