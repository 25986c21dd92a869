"""DaemonSets: one pod on every node that it is meant for. Source: Kubernetes, `pkg/controller/daemon`."""

from collections.abc import Iterable
from typing import Any

from koordpy.api import node_affinity, taints
from koordpy.api.core import Node, Pod, PodSpec, Taint, Toleration
from koordpy.api.scheme import decode
from koordpy.cluster.events import WARNING

from .controller import Context, Controller
from .dependents import Dependents
from .expectations import Expectations
from .objects import DaemonSet, available_in, created_at
from .pod_control import BURST, PodControl, pod_of
from .revisions import HASH_LABEL, Revisions, hash_of
from .rollout import share
from .template_hash import suffix

Document = dict[str, Any]

_GENERATION_LABEL = "pod-template-generation"
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_OF_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")


class DaemonSetController(Controller):
    """Creates, replaces and deletes the pods of DaemonSets, and maintains their status."""

    name = "daemonset-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._sets = context.cluster.store(DaemonSet)
        self._nodes = context.cluster.store(Node)
        self._expectations = Expectations(context.clock)
        self._pods = Dependents(
            context.cluster.store(Pod), self._sets, self.queue, context.client, self._expectations
        )
        self._revisions = Revisions(context, self._sets, self.queue)
        self._control = PodControl(context.client, self._expectations, self._events, context.rng)
        self._sets.subscribe(self._changed, lambda _, new: self._changed(new), self._gone)
        self._nodes.subscribe(self._node_changed, self._node_updated, self._node_changed)

    def _changed(self, daemon_set: DaemonSet) -> None:
        self.queue.add(daemon_set.metadata.key)

    def _gone(self, daemon_set: DaemonSet) -> None:
        self._expectations.forget(daemon_set.metadata.key)

    def _node_updated(self, old: Node, new: Node) -> None:
        before = old.metadata.labels, old.spec.taints, old.spec.unschedulable
        if before != (new.metadata.labels, new.spec.taints, new.spec.unschedulable):
            self._node_changed(new)

    def _node_changed(self, _: Node) -> None:
        for daemon_set in self._sets:
            self.queue.add(daemon_set.metadata.key)

    async def reconcile(self, key: str) -> float | None:
        """Bring the pods of a DaemonSet closer to one a node, and write the status."""
        daemon_set = self._sets.by_key(key)
        if daemon_set is None:
            return None
        pods = await self._pods.claim(daemon_set)
        revision = await self._revisions.current(daemon_set)
        hashed = hash_of(revision)
        again = self._expectations.pending(key)
        if again == 0.0:
            await self._context.catch_up(Pod)
            self._expectations.forget(key)
            return 0.0
        by_node = _by_node(pods)
        if daemon_set.metadata.deletion_timestamp is None and again is None:
            busy = await self._manage(daemon_set, by_node, hashed)
            if not busy:
                busy = await self._update(daemon_set, by_node, hashed)
            if not busy:
                live = {pod.metadata.labels.get(HASH_LABEL, "") for pod in pods}
                await self._revisions.truncate(daemon_set, live)
        wait = await self._update_status(daemon_set, by_node, hashed)
        waits = [seconds for seconds in (again, wait) if seconds is not None]
        return min(waits) if waits else None

    # --- pods ------------------------------------------------------------------------------------

    async def _manage(self, daemon_set: DaemonSet, by_node: dict[str, list[Pod]], hashed: str) -> bool:
        """Create missing pods and delete surplus ones; return whether anything was done."""
        missing: list[str] = []
        surplus: list[Pod] = []
        spec = _spec(daemon_set)
        surge, _ = _limits(daemon_set, 1)
        for node in self._nodes:
            name = node.metadata.name
            runs, stays = _belongs(spec, node)
            there = [pod for pod in by_node.get(name, ()) if pod.metadata.deletion_timestamp is None]
            failed = [pod for pod in there if pod.is_terminal]
            alive = sorted((pod for pod in there if not pod.is_terminal), key=created_at)
            if runs and not by_node.get(name):
                missing.append(name)
            elif not stays:
                surplus += alive
            else:
                surplus += failed
                for pod in failed:
                    told = f"Found failed daemon pod {pod.metadata.key} on node {name}, will try to kill it"
                    self._events.event(daemon_set, WARNING, "FailedDaemonPod", told)
                surplus += alive[1:] if not surge else alive[2:]
        for name, pods in by_node.items():
            if name not in self._nodes:
                surplus += [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        if missing:
            await self._create(daemon_set, missing[:BURST], hashed)
        if surplus:
            await self._control.delete(daemon_set, surplus[:BURST])
        return bool(missing or surplus)

    async def _create(self, daemon_set: DaemonSet, nodes: list[str], hashed: str) -> None:
        await self._control.create(daemon_set, [self._pod(daemon_set, node, hashed) for node in nodes])

    async def _update(self, daemon_set: DaemonSet, by_node: dict[str, list[Pod]], hashed: str) -> bool:
        """Replace old pods, within the limits of a rolling update; return whether anything was done."""
        strategy = daemon_set.spec.get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return False
        spec, now = _spec(daemon_set), self._clock.now()
        min_ready = float(daemon_set.spec.get("minReadySeconds") or 0)
        wanted = [node.metadata.name for node in self._nodes if _belongs(spec, node)[0]]
        surge, unavailable = _limits(daemon_set, len(wanted))
        old: list[Pod] = []
        broken: list[Pod] = []
        replaced: list[Pod] = []
        surged: list[str] = []
        down = extra = 0
        for name in wanted:
            pods = [pod for pod in by_node.get(name, ()) if pod.metadata.deletion_timestamp is None]
            new = [pod for pod in pods if pod.metadata.labels.get(HASH_LABEL) == hashed]
            stale = [pod for pod in pods if pod not in new]
            available = [pod for pod in pods if available_in(pod, min_ready, now) == 0.0]
            down += not available
            if surge:
                extra += len(pods) > 1
                if stale and new and any(pod in available for pod in new):
                    replaced += stale
                elif stale and not new:
                    surged.append(name) if available else replaced.extend(stale)
            else:
                (old if available else broken).extend(stale)
        if surge:
            surged = surged[: max(surge - extra, 0)]
            if surged:
                await self._create(daemon_set, surged, hashed)
            chosen = replaced
        else:
            chosen = broken + old[: max(unavailable - down, 0)]
        if chosen:
            await self._control.delete(daemon_set, chosen[:BURST])
        return bool(chosen or surged)

    def _pod(self, daemon_set: DaemonSet, node: str, hashed: str) -> Document:
        prefix = f"{daemon_set.metadata.name}-"
        template = daemon_set.spec.get("template") or {}
        document = pod_of(template, daemon_set, prefix + suffix(self._rng), generate_name=prefix)
        document["metadata"]["labels"] |= {
            HASH_LABEL: hashed,
            _GENERATION_LABEL: str(daemon_set.metadata.generation),
        }
        spec = document["spec"]
        spec["affinity"] = _on_node(spec.get("affinity") or {}, node)
        tolerations = list(spec.get("tolerations") or ())
        for key, effect in (*_TOLERATED, *((_OF_HOST_NETWORK,) if spec.get("hostNetwork") else ())):
            tolerations.append({"key": key, "operator": "Exists", "effect": effect})
        spec["tolerations"] = tolerations
        return document

    # --- status ----------------------------------------------------------------------------------

    async def _update_status(
        self, daemon_set: DaemonSet, by_node: dict[str, list[Pod]], hashed: str
    ) -> float | None:
        """Write the status; return the seconds until another pod is available."""
        spec, now = _spec(daemon_set), self._clock.now()
        min_ready = float(daemon_set.spec.get("minReadySeconds") or 0)
        desired = current = misscheduled = ready = available = updated = 0
        later: list[float] = []
        for node in self._nodes:
            pods = sorted(by_node.get(node.metadata.name, ()), key=created_at)
            runs, _ = _belongs(spec, node)
            desired += runs
            if not pods:
                continue
            if not runs:
                misscheduled += 1
                continue
            current += 1
            newest = next((p for p in pods if p.metadata.labels.get(HASH_LABEL) == hashed), None)
            updated += newest is not None
            pod = newest or pods[0]
            wait = None if pod.metadata.deletion_timestamp else available_in(pod, min_ready, now)
            ready += wait is not None
            available += wait == 0.0
            if wait:
                later.append(wait)
        await self._write_status(
            daemon_set,
            {
                "observedGeneration": daemon_set.metadata.generation,
                "desiredNumberScheduled": desired,
                "currentNumberScheduled": current,
                "numberMisscheduled": misscheduled,
                "numberReady": ready,
                "updatedNumberScheduled": updated or None,
                "numberAvailable": available or None,
                "numberUnavailable": desired - available or None,
                "collisionCount": daemon_set.status.get("collisionCount"),
            },
        )
        return min(later) if later else None


def _spec(daemon_set: DaemonSet) -> PodSpec:
    """Return the spec of the set's pods with the tolerations that they get."""
    given: Document = (daemon_set.spec.get("template") or {}).get("spec") or {}
    spec = decode(PodSpec, given)
    more = [Toleration(key=key, operator="Exists", effect=effect) for key, effect in _TOLERATED]
    spec.tolerations = [*spec.tolerations, *more]
    return spec


def _belongs(spec: PodSpec, node: Node) -> tuple[bool, bool]:
    """Return whether a pod should be on a node, and whether one that is there may stay."""
    if spec.node_name and spec.node_name != node.metadata.name:
        return False, False
    if not node_affinity.required(spec).matches_node(node):
        return False, False
    found: Iterable[Taint] = node.spec.taints
    runs = taints.find_untolerated(found, spec.tolerations) is None
    stays = taints.find_untolerated(found, spec.tolerations, (taints.NO_EXECUTE,)) is None
    return runs, stays


def _limits(daemon_set: DaemonSet, nodes: int) -> tuple[int, int]:
    """Return how many nodes may have an additional pod, and how many may have none, during an update."""
    rolling = (daemon_set.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    surge = share(rolling.get("maxSurge", 0), nodes, up=True)
    unavailable = share(rolling.get("maxUnavailable", 1), nodes, up=True)
    return surge, unavailable if surge or unavailable else 1


def _by_node(pods: list[Pod]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        found.setdefault(pod.spec.node_name or _target(pod), []).append(pod)
    return found


def _target(pod: Pod) -> str:
    """Return the node that a pod is meant for, from its affinity."""
    names = node_affinity.required(pod.spec).node_names
    return next(iter(names)) if names else ""


def _on_node(affinity: Document, node: str) -> Document:
    """Return an affinity that allows one node only."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    of_node = dict(affinity.get("nodeAffinity") or {})
    required = of_node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [{**term, "matchFields": [field]} for term in required.get("nodeSelectorTerms") or ()] or [
        {"matchFields": [field]}
    ]
    of_node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    return {**affinity, "nodeAffinity": of_node}
