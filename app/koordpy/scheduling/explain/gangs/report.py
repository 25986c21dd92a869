"""A gang as people read it: how far each member is, what the gang waits for, and which member failed."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_id
from koordpy.api.gang.settings import ONLY_WAITING, WAITING_AND_RUNNING, GangSource
from koordpy.api.output_model import OutputModel
from koordpy.cluster.cluster import Cluster
from koordpy.lib.counting import counted
from koordpy.scheduling.explain.history import Histories, unscheduled
from koordpy.scheduling.explain.plugin_services import PluginServices
from koordpy.scheduling.interface.waiting_pods import WaitingPods

from .summary import PLUGIN, GangSummary

_WRITTEN_AS = {
    GangSource.POD_GROUP.value: "PodGroup",
    GangSource.KUBERNETES.value: "PodGroup of Kubernetes",
}

_BLAMED = (
    re.compile(r'due to member [Pp]od "([^"]+)" is unschedulable'),
    re.compile(r"pods of \S+ fit; pod (\S+) does not"),
)
"""What members are told about another one: by Coscheduling, and when the gang was planned."""


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """The node that is held for a pod of a planned gang, and for how many more seconds."""

    node: str
    seconds_left: float


class GangMember(OutputModel):
    """A pod of a gang.

    `state` is `bound`, `waiting` (its bind call is held until the gang is complete), `planned` (its node is
    held until its bind call), `gated` (a scheduling gate keeps it out of kube-scheduler's queue) or
    `pending`. `seconds_left` is for how long it waits, or its node is held; `message` why its last attempt
    failed.
    """

    pod: str
    state: str
    node: str
    seconds_left: float | None
    gates: list[str]
    message: str


class GangPeer(OutputModel):
    """A gang of the same gang group. `problem` is why it holds the others back, if it does."""

    gang: str
    min_member: int
    members: int
    problem: str


class GangSize(OutputModel):
    """How many members are in each state; `needed` is how many more must be ready to be bound."""

    members: int
    bound: int
    waiting: int
    planned: int
    gated: int
    pending: int
    needed: int


class GangReport(OutputModel):
    """A gang. `state` says how far it is, in one word.

    - `unknown`: its PodGroup, or a valid minimum, is missing
    - `incomplete`: fewer pods exist than it needs
    - `blocked`: another gang of its group is unknown or incomplete
    - `pending`: its pods have no nodes yet
    - `planned`: nodes are held for its pods
    - `waiting`: some of its pods wait in Permit for the others
    - `scheduled`: enough of its pods are bound, or were at one time

    `written_as` is `PodGroup`, `PodGroup of Kubernetes` or `pods`; `failed_member` the pod whose failure the
    others report.
    """

    gang: str
    state: str
    written_as: str
    mode: str
    match_policy: str
    min_member: int
    total_members: int
    wait_seconds: float
    created: str
    once_satisfied: bool
    representative: str
    failed_member: str
    failure: str
    size: GangSize
    group: list[GangPeer]
    members: list[GangMember]


class GangReporter:
    """Reports the gangs of the running plugin, from its REST API and what the extender knows of their pods.

    `planned` returns the nodes that are held for pods of planned gangs, by UID.
    """

    def __init__(
        self,
        services: PluginServices,
        cluster: Cluster,
        histories: Histories,
        waiting_pods: WaitingPods,
        planned: Callable[[], Mapping[str, PlannedNode]] = dict,
    ) -> None:
        self._services, self._cluster, self._histories = services, cluster, histories
        self._waiting_pods, self._planned = waiting_pods, planned

    @property
    def is_enabled(self) -> bool:
        """Whether a profile has the plugin."""
        return self._services.plugin(PLUGIN) is not None

    def all(self, namespace: str = "") -> list[GangReport]:
        """Return the gangs (of a namespace) by ID. Raises LookupError if no profile has the plugin."""
        found = self._services.get(PLUGIN, "gangs", dict[str, GangSummary])
        planned = self._planned()
        return [
            self._report(name, summary, found, planned)
            for name, summary in sorted(found.items())
            if not namespace or name.startswith(f"{namespace}/")
        ]

    def gang(self, namespace: str, name: str) -> GangReport:
        """Return one gang. Raises LookupError for an unknown one."""
        summary = self._services.get(PLUGIN, f"gang/{namespace}/{name}", GangSummary)
        known = {f"{namespace}/{name}": summary}
        for peer in _group(f"{namespace}/{name}", summary):
            if peer not in known and peer.count("/") == 1:
                try:
                    known[peer] = self._services.get(PLUGIN, f"gang/{peer}", GangSummary)
                except LookupError:
                    continue
        return self._report(f"{namespace}/{name}", summary, known, self._planned())

    def of_pod(self, pod: Pod) -> GangReport:
        """Return the gang of a pod. Raises LookupError if it is in none, or its gang is unknown."""
        name = gang_id(pod)
        if name:
            namespace, _, short = name.partition("/")
            return self.gang(namespace, short)
        found = self._services.get(PLUGIN, "gangs", dict[str, GangSummary])
        for known, summary in sorted(found.items()):
            if pod.metadata.key in (summary.children or ()):
                return self._report(known, summary, found, self._planned())
        raise LookupError(f"pod {pod.metadata.key} is in no gang")

    def _report(
        self,
        name: str,
        summary: GangSummary,
        known: Mapping[str, GangSummary],
        planned: Mapping[str, PlannedNode],
    ) -> GangReport:
        members = [self._member(key, summary, planned) for key in sorted(summary.children or ())]
        peers = [_peer(peer, known.get(peer)) for peer in _group(name, summary)]
        size = _size(summary, members)
        blamed, failure = _failure(members)
        info = summary.gang_group_info
        return GangReport(
            gang=name,
            state=_state(summary, size, [peer for peer in peers if peer.gang != name]),
            written_as=_WRITTEN_AS.get(summary.gang_from, "pods"),
            mode=summary.mode,
            match_policy=summary.gang_match_policy,
            min_member=summary.min_required_number,
            total_members=summary.total_children_num,
            wait_seconds=summary.wait_time / 1e9,
            created=summary.create_time or "",
            once_satisfied=summary.once_resource_satisfied,
            representative="" if info is None else info.representative_pod_key,
            failed_member=blamed,
            failure=failure,
            size=size,
            group=peers,
            members=members,
        )

    def _member(self, key: str, summary: GangSummary, planned: Mapping[str, PlannedNode]) -> GangMember:
        pod = self._cluster.store(Pod).by_key(key)
        if pod is None:
            return _member(key, "bound" if key in (summary.bound_children or ()) else "pending")
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        if pod.spec.node_name:
            return _member(key, "bound", node=pod.spec.node_name)
        waiting = self._waiting_pods.get(pod.metadata.uid)
        if waiting is not None:
            left = min(waiting.seconds_left().values(), default=None)
            return _member(key, "waiting", node=waiting.node_name, left=left)
        plan = planned.get(pod.metadata.uid)
        if plan is not None:
            return _member(key, "planned", node=plan.node, left=plan.seconds_left)
        if gates:
            return _member(key, "gated", gates=gates)
        return _member(key, "pending", message=self._last_words(pod))

    def _last_words(self, pod: Pod) -> str:
        """Return why the last attempt of a pod failed, by its record here or else by its condition."""
        life = self._histories.life(pod.metadata.uid)
        last = None if life is None else life.last_cycle
        if last is not None:
            return "" if last.feasible else last.message
        told = unscheduled(pod)
        return "" if told is None or told.reason == "SchedulingGated" else told.message


def _member(
    key: str,
    state: str,
    *,
    node: str = "",
    left: float | None = None,
    gates: Iterable[str] = (),
    message: str = "",
) -> GangMember:
    seconds = None if left is None else round(max(0.0, left), 1)
    return GangMember(
        pod=key, state=state, node=node, seconds_left=seconds, gates=list(gates), message=message
    )


def _group(name: str, summary: GangSummary) -> list[str]:
    return summary.gang_group or [name]


def _peer(name: str, summary: GangSummary | None) -> GangPeer:
    if summary is None:
        return GangPeer(gang=name, min_member=0, members=0, problem="does not exist")
    members = len(summary.children or ())
    problem = ""
    if not summary.has_gang_init:
        problem = "has no PodGroup, and no pod with a valid minimum"
    elif members < summary.min_required_number:
        problem = f"has {members} of {counted(summary.min_required_number, 'pod')}"
    return GangPeer(gang=name, min_member=summary.min_required_number, members=members, problem=problem)


def _size(summary: GangSummary, members: list[GangMember]) -> GangSize:
    count = {
        state: sum(1 for member in members if member.state == state)
        for state in ("bound", "waiting", "planned", "gated", "pending")
    }
    ready = count["waiting"]
    if summary.gang_match_policy != ONLY_WAITING:
        ready += count["bound"]
    needed = 0 if _is_satisfied(summary) else max(0, summary.min_required_number - ready)
    return GangSize(members=len(members), needed=needed, **count)


def _is_satisfied(summary: GangSummary) -> bool:
    policy = summary.gang_match_policy
    return summary.once_resource_satisfied and policy not in (ONLY_WAITING, WAITING_AND_RUNNING)


def _state(summary: GangSummary, size: GangSize, others: list[GangPeer]) -> str:
    if not summary.has_gang_init:
        return "unknown"
    if _is_satisfied(summary) or size.bound >= max(1, summary.min_required_number):
        return "scheduled"
    if size.members < summary.min_required_number:
        return "incomplete"
    if any(peer.problem for peer in others):
        return "blocked"
    if size.waiting:
        return "waiting"
    return "planned" if size.planned else "pending"


def _failure(members: list[GangMember]) -> tuple[str, str]:
    """Return the member that failed, and its message. The others repeat it, and name that member."""
    failed = [member for member in members if member.message]
    for member in failed:
        for blamed in filter(None, (pattern.search(member.message) for pattern in _BLAMED)):
            own = next((one.message for one in failed if one.pod == blamed[1]), "")
            return blamed[1], own or member.message
    return (failed[0].pod, failed[0].message) if failed else ("", "")
