"""The kinds whose selectors say which pods belong together when the pods do not say so: Services and owners.

PodTopologySpread reads them for pods without constraints of their own, and they are followed only from its
first question on. Where koordpy places every pod itself, the first one too has to find them.
"""

from typing import Final

from koordpy.api.core import ReplicaSet, ReplicationController, Service, StatefulSet
from koordpy.api.meta import KubeObject
from koordpy.cluster.cluster import Cluster

SELECTING: Final[tuple[type[KubeObject], ...]] = (ReplicaSet, ReplicationController, Service, StatefulSet)


def follow(cluster: Cluster) -> None:
    """Have the kinds followed like any other. To be called before the informers' start."""
    for type_ in SELECTING:
        cluster.store(type_)
