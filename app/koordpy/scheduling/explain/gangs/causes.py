"""Why a gang keeps its pods waiting, and what to do about it."""

from collections.abc import Iterator
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.gang.kubernetes_group import group_name
from koordpy.api.gang.membership import ANNOTATION_SCHEDULED_BY, LABEL_POD_GROUP, gang_name
from koordpy.lib.counting import counted
from koordpy.scheduling.explain.cause import Cause, Certainty

from .report import GangReport

SHOWN: Final = 3
"""Pods and gangs that are named."""


def unknown_gang(pod: Pod) -> Iterator[Cause]:
    """Explain a pod whose gang the plugin does not know."""
    name = gang_name(pod)
    if ANNOTATION_SCHEDULED_BY in pod.metadata.annotations:
        yield _certain(
            "GangOfKubeScheduler",
            f"the pod belongs to group {group_name(pod)} of Kubernetes, and kube-scheduler gates gangs "
            "itself: it, not koordpy, makes the pod wait for the others",
            "see that the Workload or PodGroup exists and has as many pods as its minCount; "
            "extender.kubeSchedulerGangScheduling says who gates gangs",
        )
    elif name:
        yield from _unknown(pod, f"{pod.metadata.namespace}/{name}")


def gang_causes(pod: Pod, gang: GangReport) -> Iterator[Cause]:
    """Return what a pod's gang waits for; nothing once it is scheduled."""
    size = gang.size
    match gang.state:
        case "unknown":
            yield from _unknown(pod, gang.gang)
        case "incomplete":
            missing = gang.min_member - size.members
            yield _certain(
                "GangIncomplete",
                f"gang {gang.gang} has {size.members} of at least {counted(gang.min_member, 'pod')}: none of "
                f"them is scheduled until {counted(missing, 'more pod')} "
                f"{'exists' if missing == 1 else 'exist'}",
                "see why the controller does not create them (quotas of namespaces, webhooks), or lower "
                f"{_minimum(gang)}",
            )
        case "blocked":
            problems = [peer for peer in gang.group if peer.problem]
            named = "; ".join(f"{peer.gang} {peer.problem}" for peer in problems[:SHOWN])
            yield _certain(
                "GangGroupIncomplete",
                f"gang {gang.gang} is scheduled together with others, which are not complete: {named}",
                "create what is missing, or correct the annotation gang.scheduling.koordinator.sh/groups",
            )
        case "waiting":
            yield from _waiting(pod, gang)
        case "planned":
            yield from _planned(pod, gang)
    if gang.state in ("pending", "waiting", "planned") and gang.failed_member:
        own = gang.failed_member == pod.metadata.key
        yield _certain(
            "GangMemberFailed",
            f"gang {gang.gang} needs {counted(gang.min_member, 'pod')} at once, and "
            f"{'this pod' if own else f'its pod {gang.failed_member}'} has no node: {gang.failure}",
            "free what is short, or lower the requests or the minimum of the gang"
            if own
            else f"koordpy why {gang.failed_member}",
        )


def _unknown(pod: Pod, gang: str) -> Iterator[Cause]:
    if gang_name(pod) == group_name(pod):
        yield _certain(
            "KubernetesGroupMissing",
            f"group {group_name(pod)} of Kubernetes, which the pod's spec names, does not exist",
            "create the Workload (with this group), or the PodGroup of scheduling.k8s.io",
        )
    elif pod.metadata.labels.get(LABEL_POD_GROUP):
        yield _certain(
            "PodGroupMissing",
            f"label {LABEL_POD_GROUP} names PodGroup {gang}, which does not exist",
            "create the PodGroup, or remove the label from the pods",
        )
    else:
        yield _certain(
            "GangWithoutMinimum",
            f"no pod of gang {gang} has a valid annotation gang.scheduling.koordinator.sh/min-available",
            "set it, to the number of pods that are needed at once",
        )


def _waiting(pod: Pod, gang: GangReport) -> Iterator[Cause]:
    size = gang.size
    own = next((member for member in gang.members if member.pod == pod.metadata.key), None)
    absent = [member for member in gang.members if member.state in ("pending", "gated", "planned")]
    named = ", ".join(f"{member.pod} ({member.state})" for member in absent[:SHOWN])
    more = f" and {len(absent) - SHOWN} more" if len(absent) > SHOWN else ""
    here = "the pod waits" if own is not None and own.state == "waiting" else "others wait"
    times = [member.seconds_left for member in gang.members if member.state == "waiting"]
    left = min((seconds for seconds in times if seconds is not None), default=None)
    until = "" if left is None else f", for {left:g} more seconds"
    released = "" if gang.mode == "NonStrict" else "; when the time is over all are released, and tried again"
    yield _certain(
        "GangWaits",
        f"{here} in Permit until {counted(size.needed, 'more pod')} of gang {gang.gang} have nodes{until}: "
        f"{size.waiting} of {gang.min_member} wait, without {named}{more}",
        f"koordpy why shows what each of those lacks{released}",
    )


def _planned(pod: Pod, gang: GangReport) -> Iterator[Cause]:
    own = next((member for member in gang.members if member.pod == pod.metadata.key), None)
    if own is None or own.state != "planned":
        return
    yield _certain(
        "GangPlanned",
        f"the whole gang {gang.gang} is planned: node {own.node} is held for this pod for "
        f"{own.seconds_left or 0:g} more seconds",
        "kube-scheduler takes its pods one after the other; no action is needed",
    )


def _minimum(gang: GangReport) -> str:
    return "minMember of the PodGroup" if gang.written_as == "PodGroup" else "the minimum of the gang"


def _certain(cause: str, message: str, fix: str) -> Cause:
    return Cause(cause=cause, certainty=Certainty.CERTAIN, message=message, fix=fix)
