"""The kinds whose selectors define which pods belong together by default: Services and owners.

PodTopologySpread reads them for pods without constraints of their own, and they are followed only from its
first query on. If koordpy places every pod itself, they must be known for the first pod too.
"""

from typing import Final

from koordpy.api.core import ReplicaSet, ReplicationController, Service, StatefulSet
from koordpy.api.meta import KubeObject
from koordpy.cluster.cluster import Cluster

SELECTING: Final[tuple[type[KubeObject], ...]] = (ReplicaSet, ReplicationController, Service, StatefulSet)


def follow(cluster: Cluster) -> None:
    """Follow the kinds like any other. Call it before the informers start."""
    for type_ in SELECTING:
        cluster.store(type_)
