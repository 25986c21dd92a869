"""What tells which pods are alike when they do not say so: Services and owners.

PodTopologySpread reads them for pods without constraints of their own, and they are followed only from its
first question on. Where koordpy places every pod itself, the first one too has to find them.
"""

from typing import Final

from koordpy.api.core import ReplicaSet, ReplicationController, Service, StatefulSet
from koordpy.api.meta import KubeObject
from koordpy.cluster.cluster import Cluster

ALIKE: Final[tuple[type[KubeObject], ...]] = (ReplicaSet, ReplicationController, Service, StatefulSet)


def follow_from_the_start(cluster: Cluster) -> None:
    """Have the types followed like any other. To be called before the informers' start."""
    for type_ in ALIKE:
        cluster.store(type_)
