"""On which nodes the members of a job go once the possible victims are gone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from koordpy.api.core import Pod
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.preemption import HypotheticalNodes


@dataclass(slots=True)
class Placements:
    """The members by the index of their node, and those without a node.

    `slots` and `message` are those of the solver, for a job that asks for a place in the network.
    """

    on_node: dict[int, list[Pod]] = field(default_factory=dict)
    unplaced: Sequence[Pod] = ()
    statuses: Mapping[str, Status] = field(default_factory=dict)
    """Why nodes were refused, by name."""
    slots: Mapping[str, int] = field(default_factory=dict)
    message: str = ""
    failed: bool = False

    def plan(self, names: Sequence[str]) -> dict[str, str]:
        """Return the nodes by the keys of the members."""
        return {pod.metadata.key: names[index] for index, pods in self.on_node.items() for pod in pods}


def place_each(
    nodes: HypotheticalNodes, pods: Sequence[Pod], cost: Mapping[int, int], statuses: Mapping[str, Status]
) -> Placements:
    """Place each member on the cheapest node that can hold it alone, as Koordinator does.

    Members that are placed already are not considered, and a node that refuses a member is not tried for
    later ones.
    """
    found = Placements(statuses=(known := dict(statuses)))
    feasible: Sequence[int] = sorted(
        nodes.indexes, key=lambda index: (cost.get(index, 0), nodes.names[index])
    )
    previous = b""
    for place, pod in enumerate(pods):
        if nodes.key(pod) != previous:  # for equal members the answers are the same
            feasible, previous = _feasible(nodes, pod, feasible, known), nodes.key(pod)
        if not feasible:
            found.unplaced, found.failed = pods[place:], True
            break
        found.on_node.setdefault(feasible[0], []).append(pod)
    return found


def place_together(
    nodes: HypotheticalNodes,
    pods: Sequence[Pod],
    loss: Callable[[int], tuple[int, ...]],
    statuses: Mapping[str, Status],
) -> Placements:
    """Place the members one after the other, each beside those that are placed already.

    A node that is used already costs nothing more; `loss` is what another one costs.
    """
    found = Placements(statuses=(known := dict(statuses)))
    trial = nodes.fork(nodes.indexes)
    order = sorted(trial.indexes, key=lambda index: (loss(index), trial.names[index]))
    feasible: dict[bytes, set[int]] = {}
    changed: dict[bytes, set[int]] = {}
    for place, pod in enumerate(pods):
        key = trial.key(pod)
        if key not in feasible:
            feasible[key], changed[key] = set(_feasible(trial, pod, order, known)), set()
        elif changed[key]:
            feasible[key] -= changed[key]
            feasible[key].update(_feasible(trial, pod, sorted(changed[key]), known))
            changed[key].clear()
        fits = feasible[key]
        chosen = next((index for index in found.on_node if index in fits), None)
        if chosen is None:
            chosen = next((index for index in order if index in fits), None)
        status = SUCCESS if chosen is None else trial.add(chosen, pod)
        if chosen is None or not status.is_success:
            if chosen is not None:
                known[trial.names[chosen]] = status
            found.unplaced, found.failed = pods[place:], True
            break
        for stale in changed.values():
            stale.add(chosen)
        found.on_node.setdefault(chosen, []).append(pod)
    return found


def _feasible(
    nodes: HypotheticalNodes, pod: Pod, indexes: Sequence[int], statuses: dict[str, Status]
) -> list[int]:
    """Return the nodes that can hold a pod, in the order given; note why the others cannot."""
    refused = nodes.refusals(pod, indexes)
    statuses.update((nodes.names[index], status) for index, status in refused.items())
    return [index for index in indexes if index not in refused]
