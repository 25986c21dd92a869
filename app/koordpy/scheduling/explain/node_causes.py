"""What nodes keep back from pods, where koordpy's NodeResourcesFit finds less than kube-scheduler's.

The extender subtracts the annotation `node.koordinator.sh/reservation` from the allocatable of nodes, as
koord-scheduler does; kube-scheduler and `kubectl describe node` do not know it.
"""

from collections.abc import Iterator
from typing import Final

from koordpy.api.core import Node
from koordpy.api.extension import ANNOTATION_NODE_RESERVATION
from koordpy.api.node_reservation import kept_back
from koordpy.api.resource_names import CPU, MEMORY
from koordpy.cluster.cluster import Cluster

from .cause import Cause, Certainty

SHOWN: Final = 3
"""The number of nodes that are named."""


def kept_back_causes(cluster: Cluster, message: str) -> Iterator[Cause]:
    """Name nodes that keep back what an attempt found too little of."""
    for resource in (CPU, MEMORY):
        if f"Insufficient {resource}" not in message:
            continue
        amounts = {
            node.metadata.name: str(kept_back(node)[resource])
            for node in cluster.store(Node)
            if resource in kept_back(node)
        }
        if amounts:
            named = ", ".join(f"{name} {amounts[name]}" for name in sorted(amounts)[:SHOWN])
            more = f" and {len(amounts) - SHOWN} more" if len(amounts) > SHOWN else ""
            yield Cause(
                cause="KeptBackByNodes",
                certainty=Certainty.POSSIBLE,
                message=f"nodes keep back {resource} that their allocatable has (annotation "
                f"{ANNOTATION_NODE_RESERVATION}): {named}{more}",
                fix="lower what the annotation reserves, or request less",
            )
