"""The victims that kube-scheduler proposes in a preempt call, resolved to known pods."""

import logging
from collections.abc import Iterator

from koordpy.cluster.nodes import NodeTable
from koordpy.scheduling.interface import Victims

from .wire import BadBody, PreemptionArgs

log = logging.getLogger(__name__)

_NODES_LOGGED = 5


def known_victims(args: PreemptionArgs, table: NodeTable) -> dict[str, Victims]:
    """Look up victims by node name. Raises BadBody if there are none.

    A node with an unknown victim is dropped: kube-scheduler's view of the cluster differs then.
    """
    found: dict[str, Victims] = {}
    dropped: list[str] = []
    for node_name, uids, violations in _proposed(args):
        row = table.row_of(node_name)
        pods = {} if row is None else {pod.metadata.uid: pod for pod in table.pods_on(row)}
        if row is not None and all(uid in pods for uid in uids):
            found[node_name] = Victims([pods[uid] for uid in uids], violations)
        else:
            dropped.append(node_name)
    if dropped:
        log.info(
            "preemption on %d nodes, such as %s: koordpy does not know all proposed victims",
            len(dropped),
            ", ".join(dropped[:_NODES_LOGGED]),
        )
    return found


def _proposed(args: PreemptionArgs) -> Iterator[tuple[str, list[str], int]]:
    """Yield node names, UIDs of pods, and how many PodDisruptionBudgets these would violate."""
    if args.meta_victims is not None:
        for name, meta in args.meta_victims.items():
            yield name, [victim.uid for victim in meta.pods], meta.pdb_violations
    elif args.victims is not None:
        for name, whole in args.victims.items():
            yield name, [victim.metadata.uid for victim in whole.pods], whole.pdb_violations
    else:
        raise BadBody("neither NodeNameToMetaVictims nor NodeNameToVictims is given")
