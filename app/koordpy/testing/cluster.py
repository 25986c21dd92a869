"""A cluster that a test describes: no API server, no network, and time stands still."""

from datetime import datetime

from koordpy.api.meta import KubeObject
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock

from .objects import NOW


def cluster(*objects: KubeObject, now: datetime = NOW) -> Cluster:
    """Return a cluster that holds these objects and is completely known.

    Its clock is a `FakeClock`, which moves when a test moves it. Objects are put, changed and removed with
    `apply` and `discard` of `cluster.store(TYPE)`; all that follow the store are notified.
    """
    made = Cluster(FakeClock(now))
    _ = made.nodes  # the table follows the stores from its first use on
    for obj in objects:
        made.store(type(obj)).apply(obj)
    settle(made)
    return made


def settle(known: Cluster) -> None:
    """Let every store that was requested count as listed, also those that hold nothing."""
    for store in known.stores:
        store.synced = True
