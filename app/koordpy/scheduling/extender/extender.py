"""Answers kube-scheduler's extender calls: filter, prioritize, preempt and bind.

Filter and prioritize are synchronous, one at a time, and share the attempt's CycleState; bind is a coroutine
of its own (`koordpy.scheduling.extender.bind_cycle`), so binds in flight never delay a filter. Bodies come in
and go out as bytes.

Scores are the weighted totals of the framework. kube-scheduler adds `score * weight * 10` to its own total
and takes integers of any size, so no scaling here could keep the order better: a cluster whose in-tree
weights are multiplied by ten has in-tree and extender plugins side by side with their own weights.
"""

import logging
import time
from collections.abc import Mapping

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.cycle.fence import Fence
from koordpy.scheduling.cycle.plans import Plans
from koordpy.scheduling.cycle.tentative import TentativeReserves
from koordpy.scheduling.explain.decisions import Decision, Decisions
from koordpy.scheduling.explain.history import PODS, Histories
from koordpy.scheduling.gangs.jobs import Jobs
from koordpy.scheduling.interface import Plugin, Victims
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.profiles.config import SchedulerConfiguration
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.scheduling.profiles.registry import Place, build

from . import light, wire
from .attempts import Attempt, Attempts
from .bind_cycle import BindCycle, Gone
from .candidates import Candidates
from .filtering import Filtering
from .node_choice import Chooser
from .post_filter import PostFilters
from .preempting import Preempting
from .rejections import unsynced
from .scoring import score_kept, score_others
from .settings import NodeChoice
from .wire import BadBody

log = logging.getLogger(__name__)


def create(
    config: SchedulerConfiguration,
    cluster: Cluster,
    client: Client | None,
    *,
    skip_missing: bool = False,
    classes: Mapping[str, type[Plugin]] | None = None,
    gates: FeatureGates | None = None,
) -> "Extender":
    """Return the extender that serves a configuration. Raises ConfigError.

    Call it before the informers start: plugins request the stores that they follow. `skip_missing` omits
    plugins that are not installed instead of rejecting the configuration.
    """
    base = Handle(cluster, client=client)
    profiles = build(
        config,
        lambda _: base.sibling(),
        place=Place.EXTENDER,
        classes=classes,
        skip_missing=skip_missing,
        gates=gates,
    )
    for name, places in profiles.missing.items():
        log.warning("plugin %s is not installed, and therefore left out: %s", name, ", ".join(places))
    return Extender(profiles, base)


class Extender:
    """Answers kube-scheduler's calls with the profiles of a configuration.

    All methods take a body and return a body; they raise BadBody (HTTP 400) and nothing else. With `is_light`
    kube-scheduler binds by itself. Raises ConfigError if a plugin needs the bind call then.
    With `node_choice` koordpy, filter keeps only the best node (`koordpy.scheduling.extender.node_choice`).
    `histories` is the number of pods whose lives are recorded.
    """

    def __init__(
        self,
        profiles: Profiles,
        handle: Handle,
        *,
        decisions: Decisions | None = None,
        is_light: bool = False,
        node_choice: NodeChoice = "kube-scheduler",
        histories: int = PODS,
    ) -> None:
        self.profiles = profiles
        self.is_light = is_light
        self._chooser = Chooser(profiles, handle) if node_choice == "koordpy" else None
        self.handle = handle
        self.nodes = handle.nodes
        self._pods = handle.cluster.store(Pod)
        self.clock = handle.clock
        self.decisions = decisions or Decisions()
        self.attempts = Attempts(handle.clock)
        self.histories = Histories(handle, pods=histories, is_light=is_light)
        self.plans = Plans(profiles.frameworks.values(), handle)
        fence = Fence(handle.clock)
        self.jobs = Jobs(profiles, handle, fence)
        self.tentative = TentativeReserves(handle.clock)
        self.binds = BindCycle(
            profiles,
            handle,
            self.attempts,
            self.decisions,
            self.histories,
            self.plans,
            fence,
            self.jobs.held,
            self.tentative,
        )
        self.post_filters = PostFilters(profiles, handle, self.jobs)
        self._filtering = Filtering(
            profiles,
            handle,
            self.attempts,
            self.decisions,
            self.histories,
            self.plans,
            self.jobs,
            self.tentative,
            self.binds,
            self.post_filters,
            self._chooser,
            is_light=is_light,
        )
        self._preempting = Preempting(profiles, handle, self.attempts, self.jobs, self.post_filters)
        handle.on(Pod, self._pod_added, self._pod_updated, self._pod_deleted)
        handle.waiting_pods.on_preempt(self.tentative.preempt)
        if is_light:
            light.check(profiles.frameworks.values())
            light.WatchedBinds(handle, self.attempts, self.binds.asked)

    # --- filter ----------------------------------------------------------------------------------

    @property
    def is_prepared(self) -> bool:
        """Whether nothing is left to be released before `filter`, see `prepare`."""
        return self._filtering.is_prepared

    async def prepare(self) -> None:
        """Release what was reserved ahead in former terms, which `filter` would do without a pause."""
        await self._filtering.prepare()

    def filter(self, body: bytes) -> tuple[bytes, Attempt | None]:
        """Answer a filter call; also return the attempt, for `work_ahead` once the answer is on its way."""
        return self._filtering.filter(body)

    def work_ahead(self, attempt: Attempt) -> None:
        """Continue an attempt while kube-scheduler runs its own plugins."""
        self._filtering.work_ahead(attempt)

    # --- prioritize ------------------------------------------------------------------------------

    def prioritize(self, body: bytes) -> bytes:
        """Answer a prioritize call with the scores of the filter call's attempt."""
        began = time.perf_counter()
        args = wire.PRIORITIZE_ARGS.decode(body, "pod")
        assert args.pod is not None
        attempt = self.attempts.get(args.pod.metadata.uid)
        if attempt is not None and attempt.kept is not None and bytes(args.node_names) == attempt.kept_names:
            if not attempt.priorities:
                score_kept(attempt, attempt.kept)
            attempt.decision.took("prioritize", time.perf_counter() - began)
            return attempt.priorities
        return self._prioritize_others(body, attempt)

    def _prioritize_others(self, body: bytes, attempt: Attempt | None) -> bytes:
        """Score other nodes than filter kept: another extender dropped some, or filter was not called."""
        args = wire.EXTENDER_ARGS.decode(body, "pod")
        assert args.pod is not None
        pod = self._pods.transformed(args.pod)
        candidates = Candidates(args, self.nodes)
        names = candidates.names
        framework = self.profiles.of(pod.spec.scheduler_name)
        nodes, _ = candidates.selected
        if framework is None or not self.handle.cluster.synced:
            return wire.host_priorities(names, [0] * len(names))
        if attempt is None or attempt.is_condensed or attempt.is_reserved:
            decision = (
                attempt.decision
                if attempt is not None
                else Decision(pod, framework.profile_name, self.clock.now(), framework.weights)
            )
            attempt = Attempt(pod, framework, framework.new_state(), decision, self.clock.monotonic())
            framework.run_pre_filter(attempt.state, pod, nodes)
        known = score_others(attempt, nodes)
        return wire.host_priorities(names, [known.get(name, 0) for name in names])

    # --- preempt ---------------------------------------------------------------------------------

    def preempt(self, body: bytes) -> bytes:
        """Answer a preempt call, see `koordpy.scheduling.extender.preempting`."""
        args = wire.PREEMPTION_ARGS.decode(body, "pod")
        assert args.pod is not None
        self.tentative.unreserve(args.pod.metadata.uid, "kube-scheduler has found no node for the pod")
        agreed: Mapping[str, Victims] = {}
        if self.handle.cluster.synced:
            agreed = self._preempting.agreed(self._pods.transformed(args.pod), args)
        return wire.preemption_result(
            {
                node: ([pod.metadata.uid for pod in agreed_on.pods], agreed_on.pdb_violations)
                for node, agreed_on in agreed.items()
            }
        )

    # --- bind ------------------------------------------------------------------------------------

    async def bind(self, body: bytes, gone: Gone | None = None) -> bytes:
        """Answer a bind call once the pod is bound or the failure is known.

        `gone` is awaited while the pod waits in Permit: when it returns, the caller has disconnected and the
        attempt ends.
        """
        args = wire.BINDING_ARGS.decode(body, "pod_name")
        for member, value in (("PodUID", args.pod_uid), ("Node", args.node)):
            if not value:
                raise BadBody(f"member {member!r} is missing or empty")
        if self.is_light:
            return wire.error_result(light.BIND_REFUSED)
        error = unsynced(self.handle.cluster) or await self.binds.bind(args, gone)
        return wire.error_result(error) if error else wire.BOUND

    def close(self, why: str) -> None:
        """Fail all binds that wait in Permit, and later ones that would have to wait; release all plans."""
        self.jobs.held.close(why)
        self.tentative.clear()
        self.binds.close(why)

    # --- bookkeeping -----------------------------------------------------------------------------

    def _pod_added(self, pod: Pod) -> None:
        self.tentative.replace(pod.metadata.key, pod.metadata.uid)
        self._release_if_over(pod)

    def _pod_updated(self, _: Pod, pod: Pod) -> None:
        self._release_if_over(pod)

    def _release_if_over(self, pod: Pod) -> None:
        if pod.spec.node_name or pod.is_terminal:
            self.tentative.unreserve(pod.metadata.uid, "it was bound by another process, or has ended")

    def _pod_deleted(self, pod: Pod) -> None:
        if self._chooser is not None:
            self._chooser.withdraw(pod)
        self.tentative.unreserve(pod.metadata.uid, "the pod was deleted")
        self.binds.deleted(pod)
        attempt = self.attempts.get(pod.metadata.uid)
        if attempt is None:
            return
        if attempt.is_waiting:
            self.binds.end(attempt, f"pod {pod.metadata.key} was deleted while it waited")
        elif attempt.placement is None:
            self.attempts.discard(attempt)
