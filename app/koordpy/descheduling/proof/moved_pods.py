"""Which pods were moved lately, by which plugin, and how their nodes were when they landed.

A moved pod is a new object: its controller creates it after the eviction. The next pod of the same controller
that appears once the victim terminates is taken for its successor. What is known of it is written to an
annotation of the successor, so that it survives a restart and ends with the pod. Evictions whose successor
had not appeared when the process ended are forgotten.
"""

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from koordpy.api.core import Node, Pod
from koordpy.api.meta import format_time, parse_time
from koordpy.api.scheme import MALFORMED
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.descheduling.metrics import LANDINGS
from koordpy.descheduling.toolkit.pods import NodePods

from .successor import together

log = logging.getLogger(__name__)

ANNOTATION_MOVED: Final = "descheduling.koordpy.dev/moved"

NodeState = Mapping[str, Any]
"""What of a node decides whether a plugin moves pods from it: a small JSON object."""

IN_FLIGHT: Final = timedelta(minutes=10)
"""For how long a successor is awaited at least: twice the default TTL of migration jobs."""

MOST_EXPECTED: Final = 5000
"""The most evicted pods whose successors are awaited; the oldest are forgotten first."""

MOST_MOVED: Final = 20_000
"""The most moved pods that are kept in memory; annotations tell of the others."""

MOST_STATE_BYTES: Final = 4096


class Mover(Protocol):
    """The plugin that moves pods."""

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Return why it would move a pod again from a node with these other pods; None if it would not."""
        ...

    def node_state(self, pod: Pod, node: Node) -> NodeState:
        """Return the state of the node on which a moved pod has landed."""
        ...

    def has_changed(self, before: NodeState, pod: Pod, node: Node) -> str | None:
        """Return what has really changed on the node since then; None if nothing has."""
        ...


class Moved(msgspec.Struct, frozen=True, rename="camel"):
    """One move, as it is written to the successor's annotation."""

    profile: str
    plugin: str
    evicted_at: str
    from_node: str
    node_state: dict[str, Any] = {}


@dataclass
class Eviction:
    """An evicted pod whose successor has not landed yet."""

    victim: Pod
    mover: Mover
    moved: Moved
    node: str
    """The node that the proof named."""
    nodes: AbstractSet[str]
    """That node and equally good ones. It may grow: victims of a kind may take each other's nodes."""
    evicted_at: datetime
    arrived: Callable[[Pod], None]
    leaves: bool = False
    """Whether the victim terminates."""
    earlier: "Eviction | None" = None
    """An earlier attempt that this one replaces, until it is known whether this one has begun."""

    @property
    def controller(self) -> str:
        """The UID of the victim's controller."""
        owner = self.victim.metadata.controller
        return "" if owner is None else owner.uid


@dataclass
class MovedPods:
    """The evictions and moves of all profiles of a descheduler.

    `longest` is the longest window of all profiles: older moves are of no interest. Successors are awaited
    for as long, but at least for `IN_FLIGHT`.
    """

    cluster: Cluster
    longest: timedelta
    _expected: "OrderedDict[str, Eviction]" = field(default_factory=OrderedDict)
    """By the UID of the victim, oldest first."""
    _controllers: Counter[str] = field(default_factory=Counter)
    """The number of expected successors by the UID of their controller."""
    _landing: dict[str, Eviction] = field(default_factory=dict)
    """By the UID of the successor."""
    _moved: "OrderedDict[str, Moved]" = field(default_factory=OrderedDict)
    """By the UID of the pod."""
    _unwritten: deque[tuple[Pod, Moved]] = field(default_factory=lambda: deque(maxlen=MOST_EXPECTED))
    _work: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        """Follow pods."""
        self._pods = NodePods(self.cluster)
        store = self.cluster.store(Pod)
        store.subscribe(self._added, lambda _, pod: self._changed(pod), self._deleted)

    # --- what happens to pods --------------------------------------------------------------------

    def evicting(
        self,
        victim: Pod,
        profile: str,
        plugin: str,
        mover: Mover,
        node: str,
        nodes: AbstractSet[str],
        arrived: Callable[[Pod], None],
    ) -> None:
        """Expect the successor of a pod that is about to be evicted: it may appear before the call returns.

        `arrived` is called with the victim when the successor is bound. A pod without controller has none.
        An earlier attempt to evict the same pod is replaced.
        """
        self.forget_old()
        if victim.metadata.controller is None:
            return
        now = self.cluster.clock.now()
        moved = Moved(profile, plugin, format_time(now), victim.spec.node_name)
        known = self.cluster.store(Pod).get(victim.metadata.namespace, victim.metadata.name)
        eviction = Eviction(victim, mover, moved, node, nodes, now, arrived)
        eviction.leaves = known is None or known.metadata.uid != victim.metadata.uid or _terminates(known)
        eviction.earlier = self._expect_no_more(victim.metadata.uid)
        if eviction.earlier is not None:
            eviction.earlier.earlier = None  # it has begun
        self._expect(eviction)
        while len(self._expected) > MOST_EXPECTED:
            self._expect_no_more(next(iter(self._expected)))

    def stays(self, victim: Pod) -> None:
        """Expect no successor of the last attempt, which did not begin; an earlier one may go on."""
        refused = self._expect_no_more(victim.metadata.uid)
        if refused is not None and refused.earlier is not None:
            self._expect(refused.earlier)

    def ended(self, uid: str) -> Pod | None:
        """Expect no successor of a pod whose eviction ended without success; return the pod if one was."""
        eviction = self._expect_no_more(uid)
        if eviction is None:
            for successor, landing in self._landing.items():
                if landing.victim.metadata.uid == uid:
                    del self._landing[successor]
                    return landing.victim
        return None if eviction is None else eviction.victim

    def _expect(self, eviction: Eviction) -> None:
        self._expected[eviction.victim.metadata.uid] = eviction
        self._controllers[eviction.controller] += 1

    def _expect_no_more(self, uid: str) -> Eviction | None:
        eviction = self._expected.pop(uid, None)
        if eviction is None:
            return None
        self._controllers[eviction.controller] -= 1
        if not self._controllers[eviction.controller]:
            del self._controllers[eviction.controller]
        return eviction

    def expected(self) -> dict[str, list[Pod]]:
        """Return the victims of all rounds whose successors have not landed, by the node of the proof.

        A migration may take longer than a round.
        """
        found: dict[str, list[Pod]] = {}
        for eviction in (*self._expected.values(), *self._landing.values()):
            found.setdefault(eviction.node, []).append(eviction.victim)
        return found

    def _added(self, pod: Pod) -> None:
        owner = pod.metadata.controller
        if owner is None or owner.uid not in self._controllers:
            return
        for uid, eviction in self._expected.items():
            if eviction.leaves and eviction.controller == owner.uid and uid != pod.metadata.uid:
                self._expect_no_more(uid)
                self._landing[pod.metadata.uid] = eviction
                self._changed(pod)
                return

    def _changed(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if (eviction := self._expected.get(uid)) is not None and _terminates(pod):
            eviction.leaves = True
        if pod.spec.node_name and (landed := self._landing.pop(uid, None)) is not None:
            self._land(pod, landed)

    def _deleted(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if (eviction := self._expected.get(uid)) is not None:
            eviction.leaves = True
        self._landing.pop(uid, None)
        self._moved.pop(uid, None)

    def _land(self, pod: Pod, eviction: Eviction) -> None:
        eviction.arrived(eviction.victim)
        node = self.cluster.store(Node).get("", pod.spec.node_name)
        LANDINGS.labels(self._landing_result(pod, node, eviction)).inc()
        state = {} if node is None else dict(eviction.mover.node_state(pod, node))
        # Two clocks are compared: a move is never later than the creation of the successor.
        evicted_at = min(eviction.moved.evicted_at, pod.metadata.creation_timestamp or "~")
        moved = msgspec.structs.replace(eviction.moved, evicted_at=evicted_at, node_state=state)
        self._moved[pod.metadata.uid] = moved
        while len(self._moved) > MOST_MOVED:
            self._moved.popitem(last=False)
        self._unwritten.append((pod, moved))
        self._work.set()

    def _landing_result(self, pod: Pod, node: Node | None, eviction: Eviction) -> str:
        """Return whether the node is one of the proof, or the plugin would not move the pod from there."""
        if pod.spec.node_name in eviction.nodes:
            return "proved"
        if node is None:
            return "other"
        name, uid = node.metadata.name, pod.metadata.uid
        others = [each for each in self._pods.active_on(name) if each.metadata.uid != uid]
        pods = together(others, self.expected().get(name, ()))
        try:
            # The victim, as in the proof: plugins know its usage on its former node.
            objection = eviction.mover.objection(eviction.victim, node, pods)
        except Exception:  # a failing plugin must not end the store's event
            log.exception("pod %s: %s cannot judge its node", pod.metadata.key, eviction.moved.plugin)
            return "other"
        return "acceptable" if objection is None else "other"

    def forget_old(self) -> None:
        """Forget evictions and moves that no window covers any more, as at the start of each round."""
        now = self.cluster.clock.now()
        awaited, oldest = now - max(self.longest, IN_FLIGHT), now - self.longest
        for uid in [uid for uid, each in self._expected.items() if each.evicted_at < awaited]:
            self._expect_no_more(uid)
        for uid in [uid for uid, each in self._landing.items() if each.evicted_at < awaited]:
            del self._landing[uid]
        while self._moved:
            uid, moved = next(iter(self._moved.items()))
            if parse_time(moved.evicted_at) >= oldest:
                break
            del self._moved[uid]

    # --- what is known of a pod ------------------------------------------------------------------

    def reason_against(
        self, pod: Pod, profile: str, plugin: str, mover: Mover, window: timedelta
    ) -> str | None:
        """Return why a plugin does not move a pod again; None if it may."""
        moved = self._moved.get(pod.metadata.uid) or read(pod)
        if moved is None or (moved.profile, moved.plugin) != (profile, plugin):
            return None
        now, evicted_at = self.cluster.clock.now(), parse_time(moved.evicted_at)
        if now - evicted_at >= window:
            return None
        node = self.cluster.store(Node).get("", pod.spec.node_name)
        change = None if node is None else mover.has_changed(moved.node_state, pod, node)
        if change is not None:
            log.info("%s: pod %s may be moved again: %s", plugin, pod.metadata.key, change)
            return None
        return (
            f"moved from node {moved.from_node} by {plugin} at {moved.evicted_at}, and its node "
            f"{pod.spec.node_name} has not really changed since"
        )

    async def write_annotations(self, client: Client) -> None:
        """Write what is known of moved pods to them, until cancelled."""
        while True:
            await self._work.wait()
            self._work.clear()
            while self._unwritten:
                pod, moved = self._unwritten.popleft()
                await _write(client, pod, moved)


def read(pod: Pod) -> Moved | None:
    """Return what a pod's annotation says of its move; None without a valid one.

    Owners can write annotations too: a move is at most as recent as the creation of the pod, so that none is
    protected for longer than the window after that.
    """
    text, created = pod.metadata.annotations.get(ANNOTATION_MOVED), pod.metadata.creation_timestamp
    if text is None or not created or len(text) > 2 * MOST_STATE_BYTES:
        return None
    try:
        moved = msgspec.json.decode(text, type=Moved)
        return moved if parse_time(moved.evicted_at) <= parse_time(created) else None
    except (*MALFORMED, ValueError):
        return None


async def _write(client: Client, pod: Pod, moved: Moved) -> None:
    text = msgspec.json.encode(moved).decode()
    if len(text) > MOST_STATE_BYTES:
        text = msgspec.json.encode(msgspec.structs.replace(moved, node_state={})).decode()
    meta = pod.metadata
    patch = {"metadata": {"uid": meta.uid, "annotations": {ANNOTATION_MOVED: text}}}
    try:
        await client.patch(Pod, meta.namespace, meta.name, patch)
    except (ApiError, ConnectionFailed) as error:  # memory has it, until a restart
        log.warning("pod %s: annotation %s is not written: %s", meta.key, ANNOTATION_MOVED, error)


def _terminates(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None or pod.is_terminal
