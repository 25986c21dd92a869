"""Where would the pods of a node go if it was drained? Whole scheduling cycles that change nothing.

As `kubectl drain` does, DaemonSet pods and mirror pods stay, and all others are evicted. Each is scheduled
again by the profile of its schedulerName, the most important first, on the cluster without the node and with
the pods that were placed before it. Those that find no node do not stop the others.
"""

import asyncio
from collections import Counter

from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.api.output_model import OutputModel
from koordpy.api.pods.disruptions import Disruptions
from koordpy.api.pods.successor import successor_of
from koordpy.cluster.cluster import Cluster
from koordpy.lib.counting import counted
from koordpy.scheduling.profiles.profiles import Profiles

from .explained import Rejection, rejected, rejections
from .what_if import EXAMPLES, LONGEST, Rehearsal, Trial

_MIRROR = "kubernetes.io/config.mirror"


class StayingPod(OutputModel):
    """A pod that a drain leaves on the node."""

    pod: str
    reason: str


class DrainedPod(OutputModel):
    """A pod that a drain evicts, and where its successor would go.

    `node` is empty without a place; `message` and `rejections` then say why. `eviction_refused` is why the
    API server would refuse the eviction now; `notes` are losses that it causes.
    """

    pod: str
    owner: str
    profile: str
    node: str
    message: str = ""
    rejections: list[Rejection] = []
    eviction_refused: str = ""
    notes: list[str] = []


class Drain(OutputModel):
    """What would happen to the pods of a node.

    `placed`, `without_place` and `refused` count pods; a pod whose eviction is refused now may have a place.
    """

    node: str
    unschedulable: bool
    pods: list[DrainedPod]
    staying: list[StayingPod]
    placed: int
    without_place: int
    refused: int
    by_node: dict[str, int]
    notes: list[str]


async def drain(profiles: Profiles, cluster: Cluster, node_name: str) -> Drain:
    """Return what a drain of a node would do. Raises LookupError if it does not exist.

    Control returns to the event loop between two pods.
    """
    row = cluster.nodes.row_of(node_name)
    node = None if row is None else cluster.nodes.node(row)
    if row is None or node is None:
        raise LookupError(f"node {node_name} does not exist")
    staying, leaving = _split(list(cluster.nodes.pods_on(row)))
    budgets = next((store for store in cluster.stores if store.type is PodDisruptionBudget), None)
    notes = [] if budgets is not None else ["PodDisruptionBudgets are not followed by this process"]
    disruptions = Disruptions(budgets or ())
    placed: dict[str, list[Pod]] = {}
    found: list[DrainedPod] = []
    until = cluster.clock.monotonic() + LONGEST
    for pod in leaving:
        if cluster.clock.monotonic() >= until:
            rest = len(leaving) - len(found)
            notes.append(
                f"not tried within {LONGEST:g} s, the time limit of a what-if: {counted(rest, 'pod')}"
            )
            break
        each = _try(profiles, cluster, pod, node_name, placed)
        each.eviction_refused = disruptions.refusal(pod) or ""
        found.append(each)
        await asyncio.sleep(0)
    return Drain(
        node=node_name,
        unschedulable=node.spec.unschedulable,
        pods=found,
        staying=staying,
        placed=sum(bool(each.node) for each in found),
        without_place=sum(not each.node for each in found),
        refused=sum(bool(each.eviction_refused) for each in found),
        by_node=dict(Counter(each.node for each in found if each.node).most_common()),
        notes=notes,
    )


def _split(pods: list[Pod]) -> tuple[list[StayingPod], list[Pod]]:
    """Split pods into those that stay and those that leave, the most important first."""
    staying: list[StayingPod] = []
    leaving: list[Pod] = []
    for pod in sorted(pods, key=lambda pod: (-(pod.spec.priority or 0), pod.metadata.key)):
        reason = _why_it_stays(pod)
        if reason:
            staying.append(StayingPod(pod=pod.metadata.key, reason=reason))
        else:
            leaving.append(pod)
    return staying, leaving


def _why_it_stays(pod: Pod) -> str:
    if _MIRROR in pod.metadata.annotations:
        return "a mirror pod: its kubelet runs it"
    if any(owner.kind == "DaemonSet" and owner.controller for owner in pod.metadata.owner_references):
        return "its DaemonSet would create it again"
    if pod.metadata.deletion_timestamp is not None:
        return "it is terminating already"
    return ""


def _try(
    profiles: Profiles, cluster: Cluster, pod: Pod, drained: str, placed: dict[str, list[Pod]]
) -> DrainedPod:
    owner = next((item for item in pod.metadata.owner_references if item.controller), None)
    answer = DrainedPod(
        pod=pod.metadata.key,
        owner="" if owner is None else f"{owner.kind}/{owner.name}",
        profile="",
        node="",
        notes=_notes(pod),
    )
    framework = profiles.whole_of(pod.spec.scheduler_name)
    if framework is None:
        answer.message = f"koordpy has no profile for its schedulerName {pod.spec.scheduler_name!r}"
        return answer
    answer.profile = framework.profile_name
    rehearsal = Rehearsal(framework, cluster, placed, without=frozenset((drained,)))
    successor = successor_of(pod)
    trial = rehearsal.try_pod(successor)
    if trial.node:
        answer.node = trial.node
        rehearsal.place(successor, trial.node)
    else:
        answer.message = _message(trial)
        answer.rejections = (
            [] if trial.outcome is None else rejections(list(rejected(trial.outcome, EXAMPLES)))
        )
    return answer


def _message(trial: Trial) -> str:
    return f"{trial.stage}: {trial.message}" if trial.stage not in ("", "Filter") else trial.message


def _notes(pod: Pod) -> list[str]:
    notes = []
    if not pod.metadata.owner_references:
        notes.append("no controller creates it again (kubectl drain needs --force)")
    if any(volume.empty_dir is not None for volume in pod.spec.volumes):
        notes.append("its emptyDir volumes are lost (kubectl drain needs --delete-emptydir-data)")
    return notes
