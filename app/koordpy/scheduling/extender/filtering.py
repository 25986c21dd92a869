"""kube-scheduler's filter calls: the nodes that a pod fits on, or the one that it is to go to.

A call is an attempt to schedule the pod, which the later calls continue. Identical pods share an evaluation
of the nodes (`batching`), pods of a job are placed together (`koordpy.scheduling.gangs`), and what is left to
do for the pod once the answer is on its way is done by `work_ahead`.
"""

import asyncio
import time
from collections.abc import Mapping

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.cycle.plans import Plans
from koordpy.scheduling.cycle.ranking import Ranking
from koordpy.scheduling.cycle.tentative import AT_ONCE, TentativeReserves
from koordpy.scheduling.explain.decisions import Decision, Decisions
from koordpy.scheduling.explain.history import Histories
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
from koordpy.scheduling.interface.failure import Failure
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.profiles.profiles import Profiles

from . import wire
from .attempts import Attempt, Attempts
from .batch_binding import BatchBinding
from .batching import Batches
from .bind_cycle import BindCycle
from .candidates import Candidates
from .node_choice import Chooser
from .post_filter import PostFilters
from .pre_enqueue import UngatedPods
from .rejections import failures, node_awaited, not_enqueued, unsynced
from .scoring import score_kept
from .wire import BadBody

_NONE: Mapping[str, str] = {}


class Filtering:
    """Answers the calls, one at a time. `chooser` chooses the node if koordpy is to, else it is None."""

    def __init__(
        self,
        profiles: Profiles,
        handle: Handle,
        attempts: Attempts,
        decisions: Decisions,
        histories: Histories,
        plans: Plans,
        jobs: Jobs,
        tentative: TentativeReserves,
        binds: BindCycle,
        post_filters: PostFilters,
        chooser: Chooser | None,
        *,
        is_light: bool,
    ) -> None:
        self._profiles, self._handle, self._cluster = profiles, handle, handle.cluster
        self._nodes, self._clock, self._pods = handle.nodes, handle.clock, handle.cluster.store(Pod)
        self._attempts, self._decisions, self._histories = attempts, decisions, histories
        self._plans, self._jobs, self._tentative, self._binds = plans, jobs, tentative, binds
        self._post_filters, self._chooser, self._is_light = post_filters, chooser, is_light
        self._batches = None if chooser is None else Batches(profiles, chooser, handle)
        self._batch_binding = BatchBinding(binds, handle)
        self._ungated = UngatedPods(histories)

    @property
    def is_prepared(self) -> bool:
        """Whether nothing is left to be released before `filter`, see `prepare`."""
        return self._tentative.is_in(self._binds.fence.term)

    async def prepare(self) -> None:
        """Release what was reserved ahead in former terms, which `filter` would do without a pause."""
        while not self._tentative.enter(self._binds.fence.term, AT_ONCE):
            await asyncio.sleep(0)

    def filter(self, body: bytes) -> tuple[bytes, Attempt | None]:
        """Answer a filter call; also return the attempt, for `work_ahead` once the answer is on its way."""
        attempt = None
        try:
            answer, attempt = self._filter(body)
        finally:
            if attempt is None:
                self._tentative.ended()
        return answer, attempt

    def _filter(self, body: bytes) -> tuple[bytes, Attempt | None]:
        began = time.perf_counter()
        args = wire.EXTENDER_ARGS.decode(body, "pod")
        assert args.pod is not None
        pod = self._pods.stored(args.pod)
        if not pod.metadata.uid:
            raise BadBody(f"Pod.metadata.uid of {pod.metadata.key!r} is missing or empty")
        candidates = Candidates(args, self._nodes)
        refusal = unsynced(self._cluster)
        if refusal:
            return wire.error_result(refusal), None
        self._binds.bound.forget_vanished()
        self._tentative.enter(self._binds.fence.term)
        if self._chooser is not None:
            self._chooser.withdraw(pod)
        framework = self._profiles.of(pod.spec.scheduler_name)
        if framework is None:
            self._histories.broke(pod, self._no_profile(pod))
            return wire.error_result(self._no_profile(pod)), None
        weights = (
            framework.weights if self._chooser is None else self._chooser.weights(pod.spec.scheduler_name)
        )
        pod_bytes = len(body) - candidates.bytes
        decision = Decision(pod, framework.profile_name, self._clock.now(), weights, pod_bytes=pod_bytes)
        attempt = Attempt(
            pod,
            framework,
            framework.new_state(),
            decision,
            self._clock.monotonic(),
            term=self._binds.fence.term,
            pod_bytes=pod_bytes,
        )
        self._decisions.begin(decision)
        refusal = self._binds.supersede(attempt)
        if refusal:
            decision.fail("error", Status.failed(refusal))
            self._histories.broke(pod, refusal)
            return wire.error_result(refusal), None
        self._tentative.begin_again(pod.metadata.uid)
        enqueued = framework.run_pre_enqueue(pod)
        found, job = None, None
        if enqueued.is_success:
            job = self._job(framework, pod, candidates)
        elif self._jobs:
            self._jobs.held.release_of(pod, "contradicted", f"is not to be scheduled: {enqueued.message}")
        if self._batches is not None and enqueued.is_success and job is None and not self._plans.node_of(pod):
            found = self._batches.find(pod, candidates)
        if found is not None:
            kept = self._take_over(attempt, *found)
            self._tentative.reserve(framework, attempt.state, pod, POD_FACTOR * pod_bytes)
            self._observe(framework.profile_name, began, found[0].outcome)
            decision.took("filter", time.perf_counter() - began)
            return self._answer(attempt, kept, candidates), attempt
        attempt.moment, attempt.hidden_version = self._nodes.moment, self._nodes.hidden.version
        if job is not None:
            attempt.state, outcome = job.state, job.outcome
        elif enqueued.is_success:
            self._plans.begin(attempt.state, pod, candidates.nodes)
            outcome = framework.find_feasible(attempt.state, pod, candidates.nodes)
        else:
            outcome = not_enqueued(enqueued, candidates.nodes)
            self._ungated.warn(pod, enqueued.plugin)
        self._decisions.filtered(decision, outcome, attempt.state)
        self._observe(framework.profile_name, began, outcome)
        decision.took("filter", time.perf_counter() - began)
        if outcome.error is not None:
            decision.fail("error", outcome.error)
            self._failed(attempt, outcome.error, outcome, job)
            self._histories.broke(pod, outcome.error.message)
            return wire.error_result(outcome.error.message), None
        kept = outcome.kept
        failed, unresolvable = failures(outcome, node_awaited(pod, self._nodes))
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
            self._plans.found(attempt.state, pod)
            self._tentative.reserve(framework, attempt.state, pod, POD_FACTOR * pod_bytes)
        self._histories.filtered(pod, decision.started, outcome, fitting, message)
        answer = self._answer(attempt, kept, candidates, failed, unresolvable)
        is_work_left = job is None if len(kept) == 1 else len(kept) > 1 and framework.scores
        return answer, attempt if is_work_left else None

    def _job(self, framework: Framework, pod: Pod, candidates: Candidates) -> Answer | None:
        """Return the answer for a pod that is placed together with others."""
        if not self._jobs.concerns(framework, pod):
            return None
        self._binds.asked()
        answer = self._jobs.answer(framework, pod, candidates)
        if answer is not None and answer.planned is not None:
            self._batch_binding.begin(framework, answer.planned)
        return answer

    def _post_filter(self, attempt: Attempt, outcome: FilterOutcome, job: Answer | None) -> None:
        """Have plugins preempt if kube-scheduler cannot, and have a planned node offered."""
        pod, size = attempt.pod, attempt.pod_bytes
        if job is None:
            if not outcome.prefilter.is_success:
                self._post_filters.ask(pod, attempt.state, outcome, size)
        elif job.refused is not None:
            refused = job.refused
            self._post_filters.ask(refused.pod, refused.state, refused.outcome, size)
        elif job.nominate:
            planned = PostFilterResult(job.nominate, override=True)
            self._handle.spawn(self._post_filters.nominate(pod, planned, is_planned=True))
            attempt.framework.handle.queue.activate((pod,))

    def _take_over(self, attempt: Attempt, ranking: Ranking, row: int) -> NodeSet:
        """Place a pod with the results of an identical one; return its node."""
        decision, outcome = attempt.decision, ranking.outcome
        attempt.state, attempt.moment = ranking.state.clone(), ranking.moment
        attempt.framework.pre_filter_each(attempt.state, attempt.pod, self._nodes.all())
        attempt.hidden_version = ranking.hidden_version
        decision.chosen_by, decision.chosen = "koordpy", self._nodes.name_of(row)
        if ranking.pod_key != attempt.pod.metadata.key:
            decision.evaluated_for = ranking.pod_key
        self._decisions.filtered(decision, outcome, attempt.state)
        decision.scored(ranking.scores)
        fitting = len(ranking.scores.total)
        self._histories.filtered(attempt.pod, decision.started, outcome, fitting, "")
        return NodeSet(self._nodes, [decision.chosen], np.array([row], np.int64))

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
            self._attempts.put(attempt)
            ATTEMPTS_KEPT.set(len(self._attempts))
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
                if not self._is_light and not self._jobs.concerns(attempt.framework, attempt.pod):
                    self._binds.reserve_ahead(attempt)
            elif attempt.scores is None and attempt.placement is None and attempt.kept is not None:
                score_kept(attempt, attempt.kept)
        finally:
            self._tentative.ended()
        self._attempts.tidy()
        self._decisions.tidy()

    def _no_profile(self, pod: Pod) -> str:
        served = ", ".join(self._profiles.frameworks) or "none"
        return (
            f"no profile for schedulerName {pod.spec.scheduler_name!r} of pod {pod.metadata.key}; "
            f"profiles: {served}"
        )

    # --- bookkeeping -----------------------------------------------------------------------------

    def _failed(self, attempt: Attempt, status: Status, outcome: FilterOutcome, job: Answer | None) -> None:
        self._plans.failed(attempt.pod)
        result = "unschedulable" if status.is_rejected else "error"
        counter(ATTEMPTS, result, attempt.framework.profile_name).inc()
        histogram(ATTEMPT_DURATION, result, attempt.framework.profile_name).observe(
            self._clock.monotonic() - attempt.began
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
