"""Pending pods: kube-scheduler writes into their conditions whether it can reach koordpy."""

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable

from koordpy.api.core import Pod
from koordpy.api.meta import parse_time
from koordpy.api.pre_enqueue_gates import gate_of, plugins_of
from koordpy.features.feature import Part

from .finding import Area, Finding
from .installation import Installation

AREA = Area("pods")

PATIENCE = 60.0
"""Seconds that kube-scheduler may take for its first attempt to schedule a pod."""

_WAITING = "spec.nodeName=,status.phase=Pending"
_LONGEST = 300


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """List the pods without a node, and report why they wait, one finding per cause."""
    if why := installation.unchecked(Part.EXTENDER):
        yield AREA.skipped(why)
        return
    served = installation.profiles.frameworks
    broken: dict[str, list[Pod]] = defaultdict(list)
    strangers: dict[str, list[Pod]] = defaultdict(list)
    unseen: list[Pod] = []
    orphaned: dict[str, list[Pod]] = defaultdict(list)
    waiting = await installation.client.list_all(Pod, field_selector=_WAITING)
    for pod in waiting:
        name = pod.spec.scheduler_name or "default-scheduler"
        told = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        if pod.metadata.deletion_timestamp:
            continue
        if pod.spec.scheduling_gates:
            framework = served.get(name)
            for plugin in plugins_of(pod):
                if framework is None or plugin not in framework.pre_enqueue_plugins:
                    orphaned[plugin].append(pod)
            continue
        if name not in served:
            strangers[name].append(pod)
        elif told is not None and told.reason == "SchedulerError":
            broken[told.message].append(pod)
        elif told is None and _age(installation, pod) > PATIENCE:
            unseen.append(pod)
    for message, pods in broken.items():
        yield AREA.problem(
            _named(pods),
            f"kube-scheduler's attempt failed: {message[:_LONGEST]}",
            "check that koordpy runs, listens at urlPrefix of kube-scheduler's extenders, and answers "
            "within httpTimeout"
            if "/filter" in message or "/bind" in message or "extender" in message
            else "see kube-scheduler's log",
        )
    if unseen:
        yield AREA.problem(
            _named(unseen),
            f"kube-scheduler has not tried to schedule them for up to {_oldest(installation, unseen):.0f} s",
            "check that a kube-scheduler with a profile of their schedulerName runs and is the leader",
        )
    for plugin, pods in orphaned.items():
        yield AREA.problem(
            _named(pods),
            f"wait for the scheduling gate {gate_of(plugin)}, and no PreEnqueue plugin {plugin} runs in the "
            "profile of their schedulerName",
            f"enable {plugin} in the scheduler configuration, or remove the gate from the pods",
        )
    for name, pods in strangers.items():
        yield AREA.note(
            _named(pods),
            f"wait for schedulerName {name!r}; koordpy's profiles are for {', '.join(served) or 'none'}",
            "check that this scheduler runs, unless one of these profiles is meant",
        )
    if not (broken or unseen or orphaned):
        yield AREA.ok(
            "pods", f"{len(waiting)} wait for a node, and kube-scheduler has tried to schedule them"
        )


def _named(pods: list[Pod]) -> str:
    """Return the first of several pods, and how many others there are."""
    first = min(pod.metadata.key for pod in pods)
    return first if len(pods) == 1 else f"{first} and {len(pods) - 1} more"


def _age(installation: Installation, pod: Pod) -> float:
    at = pod.metadata.creation_timestamp
    return (installation.clock.now() - parse_time(at)).total_seconds() if at else 0.0


def _oldest(installation: Installation, pods: Iterable[Pod]) -> float:
    return max(_age(installation, pod) for pod in pods)
