"""PreEnqueue beside kube-scheduler: scheduling gates, set at admission and removed here.

`gates_for` returns the gates of a new pod. `PreEnqueueGates` removes a gate once its plugin no longer rejects
the pod; until then the pod's PodScheduled condition shows what the plugin waits for, as kube-scheduler does
for its own PreEnqueue plugins (KEP-5501). No other component removes these gates. A gate whose plugin does
not run (any more) is removed as well, because nothing would ever lift it.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from koordpy.api.core import Pod
from koordpy.api.meta import Condition, KubeObject, format_time
from koordpy.api.pre_enqueue_gates import NOT_READY, gate_of, plugins_of
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.cluster.events import WARNING, Recorder, truncate
from koordpy.cluster.kubernetes_gangs import KubernetesGangs
from koordpy.scheduling.explain.history import Histories, What
from koordpy.scheduling.framework.framework import pre_enqueue
from koordpy.scheduling.framework.metrics import GATED_PODS, GATES_REMOVED, counter
from koordpy.scheduling.interface import Changed
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.pod_queues import ClusterEvent
from koordpy.scheduling.profiles.profiles import Profiles, gated_plugins

log = logging.getLogger(__name__)

GATHERED_SECONDS = 0.5
"""How long changes are batched."""

CHECKED_AGAIN_SECONDS = 30.0
"""The longest time between two checks of a gated pod: plugins may depend on time."""

CONDITION_SECONDS = 5.0
"""The shortest time between two writes of a pod's condition: reasons may contain changing counts."""

AT_ONCE = 20
"""Pods that one writer checks before other work gets its turn."""

WRITERS = 10
"""Pods whose gates, or conditions, are written at the same time."""

SCHEDULING_GATED = "SchedulingGated"
_GATED_MESSAGE = "Scheduling is blocked due to non-empty scheduling gates"

MOST_CHANGED = 10_000
"""Changed objects that are remembered between two checks; after more, all pods are checked."""

GatesFor = Callable[[str, Callable[[], Pod]], list[str]]


def gates_for(profiles: Profiles, gangs: KubernetesGangs | None = None) -> GatesFor | None:
    """Return a function from a new pod's scheduler name, and a getter of the pod, to the gates it needs.

    `gangs` decides which pods that name a group of Kubernetes are in a gang; by default none of them is.

    None if no profile has a plugin that needs gates. The plugins of `profiles` decide by the pod alone, so
    they need not see the cluster.
    """
    by_scheduler = {
        name: plugins
        for name, framework in profiles.frameworks.items()
        if (plugins := gated_plugins(framework))
    }
    if not by_scheduler:
        return None

    def gates(scheduler_name: str, read: Callable[[], Pod]) -> list[str]:
        plugins = by_scheduler.get(scheduler_name or "default-scheduler")
        if plugins is None:
            return []
        pod = read() if gangs is None else gangs.transformed(read())
        present = set(plugins_of(pod))
        return [
            gate_of(name)
            for name, plugin in plugins.items()
            if name not in present and not pod.spec.node_name and plugin.may_refuse(pod)
        ]

    return gates


class UngatedPods:
    """Warns of pods that PreEnqueue plugins reject in filter because nothing has gated them before."""

    def __init__(self, histories: Histories) -> None:
        self._histories = histories
        self._warned: set[str] = set()

    def warn(self, pod: Pod, plugin: str) -> None:
        """Warn once of each plugin that rejects a pod which never had its scheduling gate."""
        life = self._histories.life(pod.metadata.uid)
        if plugin in self._warned or (
            life is not None and any(step.what is What.GATED for step in life.steps)
        ):
            return
        self._warned.add(plugin)
        log.warning(
            "PreEnqueue plugin %s rejects pod %s, which never had the scheduling gate %s: the pod is older "
            "than the webhooks, or they do not have the extender's profiles (--scheduler-config)",
            plugin,
            pod.metadata.key,
            gate_of(plugin),
        )


class _Gated(NamedTuple):
    """A pod's key, and the plugins for which it waits."""

    key: str
    plugins: tuple[str, ...]


class PreEnqueueGates:
    """The pods that wait for PreEnqueue plugins; `run` while we lead."""

    def __init__(
        self, profiles: Profiles, handle: Handle, client: Client, events: Mapping[str, Recorder]
    ) -> None:
        self._profiles, self._handle, self._client, self._events = profiles, handle, client, events
        self._pods = handle.cluster.store(Pod)
        self._gated: dict[str, _Gated] = {}
        """The pods with gates of ours, by UID."""
        self._waiting: Counter[str] = Counter()
        """How many of them wait for each plugin."""
        self._due: dict[str, None] = {}
        self._changed: dict[type[KubeObject], dict[str, None]] = {}
        """The keys of objects that changed since the last check, by kind."""
        self._written: dict[str, float] = {}
        """When the condition of a pod was written last, monotonic."""
        self._wake = asyncio.Event()
        plugins = [
            each for framework in profiles.frameworks.values() for each in gated_plugins(framework).items()
        ]
        self._names = {name for name, _ in plugins}
        self._plugins = [plugin for _, plugin in plugins]
        if self._names:
            handle.on(Pod, self._pod_added, self._pod_updated, self._pod_deleted)
        self._kinds = {kind for _, plugin in plugins for kind in plugin.pre_enqueue_events}
        for kind in self._kinds:
            self._follow(kind)
        for framework in profiles.frameworks.values():
            framework.handle.queue.join(self)

    def __bool__(self) -> bool:
        return bool(self._names)

    # --- pod and cluster events ------------------------------------------------------------------

    def _follow(self, kind: type[KubeObject]) -> None:
        def changed(obj: KubeObject) -> None:
            self._note_change(kind, obj)

        self._handle.on(kind, changed, lambda _, new: changed(new), changed)

    def _note_change(self, kind: type[KubeObject], obj: KubeObject) -> None:
        if not self._gated:
            return
        changed = self._changed.setdefault(kind, {})
        if len(changed) < MOST_CHANGED:
            changed[obj.metadata.key] = None
        else:
            self._due.update(dict.fromkeys(self._gated))
            self._changed.clear()
        self._wake.set()

    def _pod_added(self, pod: Pod) -> None:
        self._note_change(Pod, pod)
        if self._note(pod):
            self._due[pod.metadata.uid] = None
            self._wake.set()

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if self._note(new):
            self._due[new.metadata.uid] = None
            self._wake.set()
        if (
            old.metadata.labels != new.metadata.labels
            or old.metadata.annotations != new.metadata.annotations
            or old.spec.node_name != new.spec.node_name
            or old.is_terminal != new.is_terminal
        ):
            self._note_change(Pod, new)

    def _pod_deleted(self, pod: Pod) -> None:
        self._forget(pod.metadata.uid)
        self._note_change(Pod, pod)

    def _note(self, pod: Pod) -> bool:
        """Record, and return, whether a pod has gates of PreEnqueue plugins."""
        uid, plugins = pod.metadata.uid, tuple(plugins_of(pod))
        before = self._gated.get(uid)
        if before is not None and before.plugins == plugins and not pod.metadata.deletion_timestamp:
            return True
        self._forget(uid)
        if pod.metadata.deletion_timestamp or not plugins:
            return False
        self._gated[uid] = _Gated(pod.metadata.key, plugins)
        self._waiting.update(plugins)
        return True

    def _forget(self, uid: str) -> None:
        gated = self._gated.pop(uid, None)
        if gated is not None:
            self._waiting.subtract(gated.plugins)
        self._due.pop(uid, None)
        self._written.pop(uid, None)

    def activate(self, pod: Pod) -> None:
        """Check a pod again, if it is gated by us."""
        if pod.metadata.uid in self._gated:
            self._due[pod.metadata.uid] = None
            self._wake.set()

    def move_all(self, event: ClusterEvent) -> None:
        """Check gated pods again that an event may help: of a pod, or of a kind that a plugin follows."""
        obj = event.new or event.old
        if obj is not None and (event.kind is Pod or event.kind in self._kinds):
            self._note_change(event.kind, obj)

    # --- checking --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Check gated pods until cancelled: all initially and periodically, else those that may pass."""
        while True:
            self._due.update(dict.fromkeys(self._gated))
            until = self._handle.clock.monotonic() + CHECKED_AGAIN_SECONDS
            while (left := until - self._handle.clock.monotonic()) > 0:
                await self._check_due()
                try:
                    async with asyncio.timeout(left):
                        await self._wake.wait()
                except TimeoutError:
                    break
                self._wake.clear()
                await asyncio.sleep(GATHERED_SECONDS)

    async def _check_due(self) -> None:
        due, self._due = self._due, {}
        changed, self._changed = self._changed, {}
        if changed:
            due.update(dict.fromkeys(self._concerned(changed)))
        found = ((uid, self._gated.get(uid)) for uid in due)
        pods = (self._pods.by_key(gated.key) for _, gated in found if gated is not None)
        # In the order in which kube-scheduler takes pods, so that it gets those of a group together.
        waiting = deque(
            sorted(
                (pod for pod in pods if pod is not None and pod.metadata.uid in due),
                key=lambda pod: (
                    -(pod.spec.priority or 0),
                    pod.metadata.creation_timestamp or "",
                    pod.metadata.key,
                ),
            )
        )
        async with asyncio.TaskGroup() as writers:
            for _ in range(min(WRITERS, len(waiting))):
                writers.create_task(self._check_in_turn(waiting))
        for name in self._names:
            GATED_PODS.labels(name).set(self._waiting[name])

    def _concerned(self, changed: Changed) -> Iterable[str]:
        """Return the UIDs of the pods that changes may let pass."""
        uids: dict[str, None] = {}
        for plugin in self._plugins:
            concerned = plugin.pre_enqueue_concerned(changed)
            if concerned is None:
                return list(self._gated)
            uids.update(dict.fromkeys(concerned))
        return uids

    async def _check_in_turn(self, waiting: deque[Pod]) -> None:
        number = 0
        while waiting:
            await self._check(waiting.popleft())
            number += 1
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _check(self, pod: Pod) -> None:
        framework = self._profiles.of(pod.spec.scheduler_name)
        plugins = {} if framework is None else gated_plugins(framework)
        open_, refusal = [], ""
        for name in plugins_of(pod):
            plugin = plugins.get(name)
            if plugin is None:
                log.warning(
                    "pod %s waits for PreEnqueue plugin %s, which does not run", pod.metadata.key, name
                )
                open_.append(name)
                continue
            status = pre_enqueue(name, plugin, pod)
            if status.is_success:
                open_.append(name)
            elif not refusal:
                refusal = f"{name}: {status.message or status.code.name}"
        try:
            if open_:
                await self._remove(pod, open_)
            if refusal or open_:
                await self._report(pod, refusal, open_)
        except NotFound:
            pass
        except (ApiError, ConnectionFailed) as error:
            log.warning("pod %s, whose gates %s are to be removed: %s", pod.metadata.key, open_, error)
            if pod.metadata.uid in self._gated:
                self._due[pod.metadata.uid] = None  # with the next change
            for name in open_:
                counter(GATES_REMOVED, name, "error").inc()

    async def _remove(self, pod: Pod, plugins: Iterable[str]) -> None:
        meta, names = pod.metadata, list(plugins)
        gates = [{"name": gate_of(name), "$patch": "delete"} for name in names]
        patch = {"metadata": {"uid": meta.uid}, "spec": {"schedulingGates": gates}}
        await self._client.patch(Pod, meta.namespace, meta.name, patch, PatchType.STRATEGIC)
        for name in names:
            counter(GATES_REMOVED, name, "removed").inc()

    async def _report(self, pod: Pod, refusal: str, removed: list[str]) -> None:
        """Update the PodScheduled condition with the rejecting plugins; write an event on a change."""
        meta = pod.metadata
        told = next((each for each in pod.status.conditions if each.type == "PodScheduled"), None)
        left = [gate for gate in pod.spec.scheduling_gates if gate.name not in map(gate_of, removed)]
        if refusal:
            wanted = Condition("PodScheduled", "False", NOT_READY, truncate(refusal))
        elif told is None or told.reason != NOT_READY:
            return
        elif left:
            wanted = Condition("PodScheduled", "False", SCHEDULING_GATED, _GATED_MESSAGE)
        else:
            wanted = None
        if wanted is not None and told is not None:
            if (told.reason, told.message) == (wanted.reason, wanted.message):
                return
            now = self._handle.clock.monotonic()
            if told.reason == wanted.reason and now < self._written.get(meta.uid, 0.0) + CONDITION_SECONDS:
                return
        condition: dict[str, object] = {"type": "PodScheduled", "$patch": "delete"}
        if wanted is not None:
            now_text = format_time(self._handle.clock.now())
            condition = {
                "type": wanted.type,
                "status": wanted.status,
                "reason": wanted.reason,
                "message": wanted.message,
                "lastTransitionTime": (told and told.last_transition_time) or now_text,
            }
            self._written[meta.uid] = self._handle.clock.monotonic()
        patch = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        await self._client.patch_status(Pod, meta.namespace, meta.name, patch, PatchType.STRATEGIC)
        recorder = self._events.get(pod.spec.scheduler_name or "default-scheduler")
        if wanted is not None and wanted.reason == NOT_READY and recorder is not None:
            recorder.event(pod, WARNING, NOT_READY, wanted.message, action="Scheduling")
