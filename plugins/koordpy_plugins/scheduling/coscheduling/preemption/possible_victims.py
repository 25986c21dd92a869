"""Which pods may have to go for a job, and what it would cost to evict them all from a node."""

from collections.abc import Mapping, Sequence

from koordpy.api.core import Pod
from koordpy.api.extension import LABEL_DISABLE_PREEMPTIBLE, LABEL_QUOTA_PREEMPTIBLE
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.preemption import HypotheticalNodes, priority_of

LABEL_QUESTIONED_OBJECT_KEY = "scheduling.koordinator.sh/questioned-object-key"
"""The key of the job that a pod belongs to."""

NO_POTENTIAL_VICTIMS = Status.unresolvable("no potential victims")


def may_preempt(victim: Pod, preemptor: Pod) -> bool:
    """Return whether a pod may be evicted for another one: it has a lower priority and is not protected."""
    labels = victim.metadata.labels
    return (
        priority_of(victim) < priority_of(preemptor)
        and labels.get(LABEL_DISABLE_PREEMPTIBLE) != "true"
        and labels.get(LABEL_QUOTA_PREEMPTIBLE) != "false"
    )


def job_of(pod: Pod) -> str:
    """Return the key of a pod's job; pods without one count as one job."""
    return pod.metadata.labels.get(LABEL_QUESTIONED_OBJECT_KEY, "")


def take_victims(nodes: HypotheticalNodes, victims_on: Mapping[int, Sequence[Pod]]) -> dict[str, Status]:
    """Remove the possible victims; return the nodes without any, and those where a plugin failed."""
    statuses: dict[str, Status] = {}
    for index in nodes.indexes:
        pods = victims_on.get(index)
        if not pods:
            statuses[nodes.names[index]] = NO_POTENTIAL_VICTIMS
            continue
        status = nodes.remove(index, pods)
        if not status.is_success:
            statuses[nodes.names[index]] = status
    return statuses


def costs(victims_on: Mapping[int, Sequence[Pod]]) -> dict[int, int]:
    """Return the cost of each node: the sum over jobs of the rank of their first pod's priority.

    The lowest priority of all possible victims has rank 0.
    """
    priorities = sorted({priority_of(pod) for pods in victims_on.values() for pod in pods})
    rank = {priority: place for place, priority in enumerate(priorities)}
    found = {}
    for index, pods in victims_on.items():
        first: dict[str, Pod] = {}
        for pod in pods:
            first.setdefault(job_of(pod), pod)
        found[index] = sum(rank[priority_of(pod)] for pod in first.values())
    return found


def in_order_of_return(victims: Sequence[Pod]) -> list[Pod]:
    """Sort possible victims: those that are put back first come first."""
    return sorted(victims, key=lambda pod: (-priority_of(pod), job_of(pod), pod.metadata.name))
