"""Which of the possible victims have to go: those that cannot be put back beside the members."""

from collections.abc import Callable, Mapping, Sequence

from koordpy.api.core import Pod
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.preemption import HypotheticalNodes


class VictimsUnknown(Exception):
    """A plugin failed while victims were put back; carries the Error status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def choose_victims(
    nodes: HypotheticalNodes,
    members_on: Mapping[int, Sequence[Pod]],
    victims_on: Mapping[int, Sequence[Pod]],
    order: Callable[[Sequence[Pod]], Sequence[Pod]],
) -> dict[int, list[Pod]]:
    """Put pods back on the nodes that members go to, in the order of `order`; return those that cannot stay.

    A pod stays if all members planned on its node still fit, one after the other. Each node's next pod is
    tried at the same time. Raises VictimsUnknown.
    """
    queues = {index: order(victims_on.get(index, ())) for index in members_on}
    victims: dict[int, list[Pod]] = {}
    turn = 0
    while active := [index for index in queues if turn < len(queues[index])]:
        for index in active:
            _must(nodes.add(index, queues[index][turn]))
        for index in _crowded(nodes, active, members_on):
            pod = queues[index][turn]
            _must(nodes.remove(index, (pod,)))
            victims.setdefault(index, []).append(pod)
        turn += 1
    return victims


def _crowded(
    nodes: HypotheticalNodes, indexes: Sequence[int], members_on: Mapping[int, Sequence[Pod]]
) -> list[int]:
    """Return the nodes on which not all their members fit."""
    trial = nodes.fork(indexes)
    left = {position: members_on[index] for position, index in enumerate(indexes)}
    crowded: list[int] = []
    turn = 0
    while left:
        # Members of one key are filtered in one pass.
        for position, refused in _refusals(trial, left, turn).items():
            if refused:
                crowded.append(indexes[position])
                del left[position]
        for position in list(left):
            pods = left[position]
            if turn + 1 < len(pods):
                _must(trial.add(position, pods[turn]))
            else:
                del left[position]
        turn += 1
    return crowded


def _refusals(trial: HypotheticalNodes, left: Mapping[int, Sequence[Pod]], turn: int) -> dict[int, bool]:
    groups: dict[bytes, list[int]] = {}
    for position, pods in left.items():
        groups.setdefault(trial.key(pods[turn]), []).append(position)
    answers: dict[int, bool] = {}
    for positions in groups.values():
        refused = trial.refusals(left[positions[0]][turn], positions)
        answers.update((position, position in refused) for position in positions)
    return answers


def _must(status: Status) -> None:
    if not status.is_success:
        raise VictimsUnknown(status)
