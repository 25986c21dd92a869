"""Answers kube-scheduler's extender calls: filter, prioritize, preempt and bind.

Filter and prioritize are synchronous, one at a time, and share the attempt's CycleState; bind is a coroutine
of its own (`koordpy.scheduling.extender.bind_cycle`), so binds in flight never delay a filter. Bodies come in
and go out as bytes.

Scores are the weighted totals of the framework. kube-scheduler adds `score * weight * 10` to its own total
and takes integers of any size, so no scaling here could keep the order better: a cluster whose in-tree
weights are multiplied by ten has in-tree and extender plugins side by side with their own weights.
"""

import asyncio
import logging
import time
from collections.abc import Mapping

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.cycle.fence import Fence
from koordpy.scheduling.cycle.plans import Plans
from koordpy.scheduling.cycle.ranking import Ranking
from koordpy.scheduling.cycle.tentative import AT_ONCE, TentativeReserves
from koordpy.scheduling.explain.decisions import Decision, Decisions
from koordpy.scheduling.explain.history import PODS, Histories
from koordpy.scheduling.explain.remembered_pod import POD_FACTOR
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.metrics import (
    ATTEMPT_DURATION,
    ATTEMPTS,
    ATTEMPTS_KEPT,
    EVALUATED_NODES,
    FEASIBLE_NODES,
    POINT_DURATION,
    counter,
    histogram,
)
from koordpy.scheduling.gangs.jobs import Answer, Jobs
from koordpy.scheduling.interface import Plugin
from koordpy.scheduling.interface.failure import Failure
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.profiles.config import SchedulerConfiguration
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.scheduling.profiles.registry import Place, build

from . import light, wire
from .attempts import Attempt, Attempts
from .batch_binding import BatchBinding
from .batching import Batches
from .bind_cycle import BindCycle, Gone
from .candidates import Candidates
from .node_choice import Chooser
from .post_filter import PostFilters
from .pre_enqueue import UngatedPods
from .preempting import Preempting
from .rejections import failures, node_awaited, not_enqueued
from .scoring import score_kept, score_others
from .settings import NodeChoice
from .wire import BadBody

log = logging.getLogger(__name__)

_NONE: Mapping[str, str] = {}


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
        self._batches = Batches(profiles, self._chooser, handle) if self._chooser is not None else None
        self.handle = handle
        self.nodes = handle.nodes
        self._pods = handle.cluster.store(Pod)
        self.clock = handle.clock
        self.decisions = decisions or Decisions()
        self.attempts = Attempts(handle.clock)
        self.histories = Histories(handle, pods=histories, is_light=is_light)
        self._ungated = UngatedPods(self.histories)
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
        self._batch_binding = BatchBinding(self.binds, handle)
        self.post_filters = PostFilters(profiles, handle, self.jobs)
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
        return self.tentative.is_in(self.binds.fence.term)

    async def prepare(self) -> None:
        """Release what was reserved ahead in former terms, which `filter` would do without a pause."""
        while not self.tentative.enter(self.binds.fence.term, AT_ONCE):
            await asyncio.sleep(0)

    def filter(self, body: bytes) -> tuple[bytes, Attempt | None]:
        """Answer a filter call; also return the attempt, for `work_ahead` once the answer is on its way."""
        attempt = None
        try:
            answer, attempt = self._filter(body)
        finally:
            if attempt is None:
                self.tentative.ended()
        return answer, attempt

    def _filter(self, body: bytes) -> tuple[bytes, Attempt | None]:
        began = time.perf_counter()
        args = wire.EXTENDER_ARGS.decode(body, "pod")
        assert args.pod is not None
        pod = self._pods.stored(args.pod)
        if not pod.metadata.uid:
            raise BadBody(f"Pod.metadata.uid of {pod.metadata.key!r} is missing or empty")
        candidates = Candidates(args, self.nodes)
        refusal = self._unsynced()
        if refusal:
            return wire.error_result(refusal), None
        self.binds.forget_vanished()
        self.tentative.enter(self.binds.fence.term)
        if self._chooser is not None:
            self._chooser.withdraw(pod)
        framework = self.profiles.of(pod.spec.scheduler_name)
        if framework is None:
            self.histories.broke(pod, self._no_profile(pod))
            return wire.error_result(self._no_profile(pod)), None
        weights = (
            framework.weights if self._chooser is None else self._chooser.weights(pod.spec.scheduler_name)
        )
        pod_bytes = len(body) - candidates.bytes
        decision = Decision(pod, framework.profile_name, self.clock.now(), weights, pod_bytes=pod_bytes)
        attempt = Attempt(
            pod,
            framework,
            framework.new_state(),
            decision,
            self.clock.monotonic(),
            term=self.binds.fence.term,
            pod_bytes=pod_bytes,
        )
        self.decisions.begin(decision)
        refusal = self.binds.supersede(attempt)
        if refusal:
            decision.fail("error", Status.failed(refusal))
            self.histories.broke(pod, refusal)
            return wire.error_result(refusal), None
        self.tentative.begin_again(pod.metadata.uid)
        enqueued = framework.run_pre_enqueue(pod)
        found, job = None, None
        if enqueued.is_success:
            job = self._job(framework, pod, candidates)
        elif self.jobs:
            self.jobs.held.release_of(pod, "contradicted", f"is not to be scheduled: {enqueued.message}")
        if self._batches is not None and enqueued.is_success and job is None and not self.plans.node_of(pod):
            found = self._batches.find(pod, candidates)
        if found is not None:
            kept = self._take_over(attempt, *found)
            self.tentative.reserve(framework, attempt.state, pod, POD_FACTOR * pod_bytes)
            self._observe(framework.profile_name, began, found[0].outcome)
            decision.took("filter", time.perf_counter() - began)
            return self._answer(attempt, kept, candidates), attempt
        attempt.moment, attempt.hidden_version = self.nodes.moment, self.nodes.hidden.version
        if job is not None:
            attempt.state, outcome = job.state, job.outcome
        elif enqueued.is_success:
            self.plans.begin(attempt.state, pod, candidates.nodes)
            outcome = framework.find_feasible(attempt.state, pod, candidates.nodes)
        else:
            outcome = not_enqueued(enqueued, candidates.nodes)
            self._ungated.warn(pod, enqueued.plugin)
        self.decisions.filtered(decision, outcome, attempt.state)
        self._observe(framework.profile_name, began, outcome)
        decision.took("filter", time.perf_counter() - began)
        if outcome.error is not None:
            decision.fail("error", outcome.error)
            self._failed(attempt, outcome.error, outcome, job)
            self.histories.broke(pod, outcome.error.message)
            return wire.error_result(outcome.error.message), None
        kept = outcome.kept
        failed, unresolvable = failures(outcome, node_awaited(pod, self.nodes))
        if job is None or not len(kept):  # the names need not be decoded for one that is planned
            for name in candidates.selected[1]:
                unresolvable[name] = f'node "{name}" is not known to koordpy (yet)'
        fitting = len(kept)
        if self._chooser is not None and fitting > 1:
            kept = self._choose(self._chooser, attempt, kept)
        message = ""
        if not len(kept):
            status = outcome.prefilter
            if status.is_success:
                status = Status(Code.UNSCHEDULABLE, (outcome.message(),))
            decision.fail("unschedulable", status)
            self._failed(attempt, status, outcome, job)
            message = status.message
            self._post_filter(attempt, outcome, job)
        elif job is None:
            self.plans.found(attempt.state, pod)
            self.tentative.reserve(framework, attempt.state, pod, POD_FACTOR * pod_bytes)
        self.histories.filtered(pod, decision.started, outcome, fitting, message)
        answer = self._answer(attempt, kept, candidates, failed, unresolvable)
        is_work_left = job is None if len(kept) == 1 else len(kept) > 1 and framework.scores
        return answer, attempt if is_work_left else None

    def _job(self, framework: Framework, pod: Pod, candidates: Candidates) -> Answer | None:
        """Return the answer for a pod that is placed together with others."""
        if not self.jobs.concerns(framework, pod):
            return None
        self.binds.asked()
        answer = self.jobs.answer(framework, pod, candidates)
        if answer is not None and answer.planned is not None:
            self._batch_binding.begin(framework, answer.planned)
        return answer

    def _post_filter(self, attempt: Attempt, outcome: FilterOutcome, job: Answer | None) -> None:
        """Have plugins preempt if kube-scheduler cannot, and have a planned node offered."""
        pod, size = attempt.pod, attempt.pod_bytes
        if job is None:
            if not outcome.prefilter.is_success:
                self.post_filters.ask(pod, attempt.state, outcome, size)
        elif job.refused is not None:
            refused = job.refused
            self.post_filters.ask(refused.pod, refused.state, refused.outcome, size)
        elif job.nominate:
            planned = PostFilterResult(job.nominate, override=True)
            self.handle.spawn(self.post_filters.nominate(pod, planned, is_planned=True))
            attempt.framework.handle.queue.activate((pod,))

    def _take_over(self, attempt: Attempt, ranking: Ranking, row: int) -> NodeSet:
        """Place a pod with the results of an identical one; return its node."""
        decision, outcome = attempt.decision, ranking.outcome
        attempt.state, attempt.moment = ranking.state.clone(), ranking.moment
        attempt.framework.pre_filter_each(attempt.state, attempt.pod, self.nodes.all())
        attempt.hidden_version = ranking.hidden_version
        decision.chosen_by, decision.chosen = "koordpy", self.nodes.name_of(row)
        if ranking.pod_key != attempt.pod.metadata.key:
            decision.evaluated_for = ranking.pod_key
        self.decisions.filtered(decision, outcome, attempt.state)
        decision.scored(ranking.scores)
        fitting = len(ranking.scores.total)
        self.histories.filtered(attempt.pod, decision.started, outcome, fitting, "")
        return NodeSet(self.nodes, [decision.chosen], np.array([row], np.int64))

    def _answer(
        self,
        attempt: Attempt,
        kept: NodeSet,
        candidates: Candidates,
        failed: Mapping[str, str] = _NONE,
        unresolvable: Mapping[str, str] = _NONE,
    ) -> bytes:
        """Store the nodes that are kept, if any, and encode them."""
        if len(kept):
            attempt.kept = kept
            as_sent = bool(candidates.text) and len(kept) > 1 and len(kept) == len(candidates.names)
            attempt.kept_names = candidates.text if as_sent else wire.encode_names(kept.names)
            self.attempts.put(attempt)
            ATTEMPTS_KEPT.set(len(self.attempts))
        full_nodes = candidates.full_nodes
        if not full_nodes:
            return wire.filter_result(attempt.kept_names or b"[]", failed, unresolvable)
        items = [bytes(full_nodes[name]) for name in kept.names]
        return wire.filter_result(b"[" + b",".join(items) + b"]", failed, unresolvable, full_nodes=True)

    def _choose(self, chooser: Chooser, attempt: Attempt, kept: NodeSet) -> NodeSet:
        """Return only the best node, or all of them if kube-scheduler has to choose."""
        began = time.perf_counter()
        chosen = chooser.choose(attempt, kept)
        if chosen is None:
            return kept
        best, attempt.scores = chosen
        attempt.decision.chosen_by, attempt.decision.chosen = "koordpy", kept.names[best]
        attempt.decision.scored(attempt.scores)
        took = time.perf_counter() - began
        attempt.decision.took("score", took)
        histogram(POINT_DURATION, "Score", "Success", attempt.framework.profile_name).observe(took)
        return kept.pick(np.array([best], np.int64))

    def work_ahead(self, attempt: Attempt) -> None:
        """Continue an attempt while kube-scheduler runs its own plugins.

        Several nodes are scored, so that prioritize finds the answer ready. A single one is reserved, so that
        the filter calls of other pods do not find it free; not for pods of jobs, which are planned together.
        """
        try:
            if attempt.kept is not None and len(attempt.kept) == 1:
                if not self.is_light and not self.jobs.concerns(attempt.framework, attempt.pod):
                    self.binds.reserve_ahead(attempt)
            elif attempt.scores is None and attempt.placement is None and attempt.kept is not None:
                score_kept(attempt, attempt.kept)
        finally:
            self.tentative.ended()
        self.attempts.tidy()
        self.decisions.tidy()

    def _unsynced(self) -> str:
        """Return what has not been listed yet; empty if nothing is missing."""
        if self.handle.cluster.synced:
            return ""
        waiting = [store.type.__name__ for store in self.handle.cluster.stores if not store.synced]
        return f"koordpy cannot schedule yet, not listed so far: {', '.join(waiting)}"

    def _no_profile(self, pod: Pod) -> str:
        served = ", ".join(self.profiles.frameworks) or "none"
        return (
            f"no profile for schedulerName {pod.spec.scheduler_name!r} of pod {pod.metadata.key}; "
            f"profiles: {served}"
        )

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
        if framework is None or self._unsynced():
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
        agreed = {} if self._unsynced() else self._preempting.agreed(self._pods.transformed(args.pod), args)
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
        error = self._unsynced() or await self.binds.bind(args, gone)
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

    def _failed(self, attempt: Attempt, status: Status, outcome: FilterOutcome, job: Answer | None) -> None:
        self.plans.failed(attempt.pod)
        result = "unschedulable" if status.is_rejected else "error"
        counter(ATTEMPTS, result, attempt.framework.profile_name).inc()
        histogram(ATTEMPT_DURATION, result, attempt.framework.profile_name).observe(
            self.clock.monotonic() - attempt.began
        )
        refused_by = job.refused_by if job is not None else frozenset[str]()
        failure = Failure(attempt.pod, status, state=attempt.state, outcome=outcome, refused_by=refused_by)
        attempt.framework.handle.report_failure(failure)

    @staticmethod
    def _observe(profile: str, began: float, outcome: FilterOutcome) -> None:
        status = "Error" if outcome.error is not None else "Success"
        histogram(POINT_DURATION, "Filter", status, profile).observe(time.perf_counter() - began)
        histogram(EVALUATED_NODES).observe(len(outcome.nodes))
        histogram(FEASIBLE_NODES).observe(int(np.count_nonzero(outcome.feasible)))
