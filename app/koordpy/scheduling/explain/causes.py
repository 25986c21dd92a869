"""Why a pod waits that kube-scheduler never sent to koordpy: the causes, the most certain first.

kube-scheduler calls an extender only for pods of its profiles that have no gates, and only with nodes that
passed its own plugins. So there are only a few causes. The best evidence is what it wrote into the pod's
PodScheduled condition; otherwise the cause is inferred from other pods, and from what kube-scheduler's own
plugins would answer.
"""

from collections.abc import Iterator

from koordpy.api.core import Pod
from koordpy.api.meta import format_time
from koordpy.api.pre_enqueue_gates import gate_of, plugins_of
from koordpy.lib.counting import counted
from koordpy.scheduling.framework.framework import pre_enqueue
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.profiles.in_tree import IN_TREE
from koordpy.scheduling.profiles.profiles import Profiles

from .cause import Cause, Certainty
from .device_causes import device_causes, left_causes, not_offered_causes, unhealthy_causes
from .gangs.causes import gang_causes, unknown_gang
from .gangs.report import GangReporter
from .history import Histories, Life, What, created, unscheduled
from .node_causes import kept_back_causes
from .quotas.causes import quota_causes
from .quotas.explanation import QuotaExplainer
from .reservation_causes import reservation_causes

FRESH_SECONDS = 5.0
"""A younger pod may simply not have had its turn yet."""


class Causes:
    """Finds out why pods wait, from the running profiles, the histories of all pods, gangs and quotas.

    `gangs` and `quotas` are None where those are not followed.
    """

    def __init__(
        self,
        profiles: Profiles,
        histories: Histories,
        gangs: GangReporter | None = None,
        quotas: QuotaExplainer | None = None,
    ) -> None:
        self._profiles, self._histories = profiles, histories
        self._gangs, self._quotas = gangs, quotas

    def of(self, pod: Pod, life: Life | None) -> list[Cause]:
        """Return the causes of a pod's state, the most certain first; empty if its history explains it."""
        certain = list(self._certain(pod, life))
        if pod.spec.node_name or pod.metadata.deletion_timestamp:
            return certain
        shared = self.shared(pod)
        if certain:
            return [*certain, *shared]
        if life is not None and life.cycles:
            return [*shared, *self._of_last_attempt(pod, life), self._between(pod, life)]
        return [*shared, *self._never_sent(pod)]

    # --- from the pod ----------------------------------------------------------------------------

    def _certain(self, pod: Pod, life: Life | None) -> Iterator[Cause]:
        if pod.spec.node_name:
            if life is None or not (life.cycles or life.binding_to):
                yield _cause(
                    "AlreadyBound",
                    Certainty.CERTAIN,
                    f"the pod is on node {pod.spec.node_name}; koordpy was not called for it (another "
                    "scheduler bound it, "
                    "or it was bound before koordpy started)",
                    "no action is needed, unless koordpy should schedule the pod: then check which "
                    "scheduler serves it",
                )
                if life is not None and self._profiles.of(pod.spec.scheduler_name) is not None:
                    yield from self._not_configured(pod.spec.scheduler_name or "default-scheduler")
            return
        if pod.metadata.deletion_timestamp:
            held = f"; finalizers: {', '.join(pod.metadata.finalizers)}" if pod.metadata.finalizers else ""
            yield _cause(
                "BeingDeleted",
                Certainty.CERTAIN,
                f"the pod is being deleted since {pod.metadata.deletion_timestamp}{held}",
                "kube-scheduler ignores it; remove the finalizers if no controller does"
                if held
                else "kube-scheduler ignores it",
            )
        elif pod.spec.scheduling_gates:
            yield from self._gated(pod)
        elif self._profiles.of(pod.spec.scheduler_name) is None:
            served = ", ".join(self._profiles.frameworks) or "none"
            yield _cause(
                "OtherScheduler",
                Certainty.CERTAIN,
                f"spec.schedulerName is {pod.spec.scheduler_name!r}, and koordpy's profiles are for "
                f"{served}: "
                "another scheduler must place the pod",
                "check that this scheduler runs; or give the pod a schedulerName that koordpy serves (a "
                "ClusterColocationProfile can), or add a profile of that name to koordpy",
            )

    def _gated(self, pod: Pod) -> Iterator[Cause]:
        """Explain the pod's scheduling gates, those of PreEnqueue plugins first."""
        framework = self._profiles.of(pod.spec.scheduler_name)
        ours = set()
        for name in plugins_of(pod):
            ours.add(gate_of(name))
            plugin = None if framework is None else framework.pre_enqueue_plugins.get(name)
            if plugin is None:
                yield _cause(
                    "GateWithoutPlugin",
                    Certainty.CERTAIN,
                    f"the pod has the scheduling gate {gate_of(name)}, and no such PreEnqueue plugin runs in "
                    f"the profile of schedulerName {pod.spec.scheduler_name!r}",
                    "enable the plugin in the scheduler configuration, or remove the gate from the pod",
                )
                continue
            status = pre_enqueue(name, plugin, pod)
            if status.is_success:
                yield _cause(
                    "GateIsDue",
                    Certainty.CERTAIN,
                    f"PreEnqueue plugin {name} no longer rejects the pod; its gate {gate_of(name)} is still "
                    "there",
                    "the koordpy that holds the Lease removes it within about a second; check that one does",
                )
            else:
                yield _cause(
                    "PreEnqueue",
                    Certainty.CERTAIN,
                    f"PreEnqueue plugin {name} keeps the pod out of the queue: "
                    f"{status.message or status.code.name}",
                    "koordpy removes the scheduling gate once the plugin no longer rejects the pod",
                )
        others = [gate.name for gate in pod.spec.scheduling_gates if gate.name not in ours]
        if others:
            yield _cause(
                "Gated",
                Certainty.CERTAIN,
                f"spec.schedulingGates: {', '.join(others)}: kube-scheduler waits until they are gone",
                "the component that set the gates must remove them",
            )

    def _between(self, pod: Pod, life: Life) -> Cause:
        """Explain a pod that koordpy has filtered before and that waits for its next turn."""
        last = life.last_cycle
        told = f": {last.message}" if last is not None and last.message else ""
        return _cause(
            "WaitsForRetry",
            Certainty.CERTAIN,
            f"kube-scheduler sent the pod {counted(life.cycles, 'time')}, last at "
            f"{'-' if last is None else format_time(last.last or last.at)}{told}",
            "kube-scheduler retries when something changes that may help, otherwise after its backoff (1 s "
            "to 10 s) or, unschedulable, after five minutes; fix what the last attempt reports",
        )

    def shared(self, pod: Pod) -> list[Cause]:
        """Return why a pod waits because of others: those of its gang, of its quota, and kube-scheduler."""
        return [*self._of_gang(pod), *self._of_quota(pod), *self._of_kube_scheduler(pod)]

    def _of_kube_scheduler(self, pod: Pod) -> Iterator[Cause]:
        """Say which of the pod's devices kube-scheduler allocates."""
        framework = self._profiles.of(pod.spec.scheduler_name)
        if framework is not None:
            yield from left_causes(framework.handle.cluster, pod)

    def _of_gang(self, pod: Pod) -> Iterator[Cause]:
        """Explain what the pod's gang waits for."""
        if self._gangs is None or not self._gangs.is_enabled:
            return
        try:
            gang = self._gangs.of_pod(pod)
        except LookupError:
            yield from unknown_gang(pod)
        else:
            yield from gang_causes(pod, gang)

    def _of_quota(self, pod: Pod) -> Iterator[Cause]:
        """Explain why the pod's quota has no room for it."""
        if self._quotas is None or not self._quotas.is_enabled:
            return
        try:
            explanation = self._quotas.explain_pod(pod)
        except LookupError:
            return
        yield from quota_causes(pod, explanation)

    def _of_last_attempt(self, pod: Pod, life: Life) -> Iterator[Cause]:
        """Explain what NUMA nodes, devices and Reservations have to do with the last attempt's failure."""
        framework, failure = self._profiles.of(pod.spec.scheduler_name), life.last_failure
        if framework is not None and failure is not None:
            cluster = framework.handle.cluster
            yield from device_causes(cluster, pod, failure.message)
            yield from kept_back_causes(cluster, failure.message)
            if failure.what is not What.FAILED:
                yield from reservation_causes(cluster, pod, self._profiles.frameworks)

    # --- never sent ------------------------------------------------------------------------------

    def _never_sent(self, pod: Pod) -> Iterator[Cause]:
        told = unscheduled(pod)
        refused = self._refused_in_tree(pod)
        if told is not None and told.reason == "SchedulerError":
            unreachable = "/filter" in told.message or "extender" in told.message
            yield _cause(
                "ExtenderUnreachable" if unreachable else "SchedulerError",
                Certainty.CERTAIN,
                f"kube-scheduler's attempt failed: {told.message}",
                "check that urlPrefix in kube-scheduler's configuration is where koordpy listens, that "
                "nothing blocks "
                "the connection, and that httpTimeout is long enough (koordpy doctor --scheduler-config FILE)"
                if unreachable
                else "see kube-scheduler's log",
            )
            return
        if told is not None:
            yield _cause(
                "RefusedInTree",
                Certainty.CERTAIN,
                f"kube-scheduler's own plugins left no node, so koordpy was not called: {told.message}"
                + (f" (now: {refused})" if refused and refused != told.message else ""),
                "free resources or change the pod's requests; koordpy whatif shows what would help",
            )
            framework = self._profiles.of(pod.spec.scheduler_name)
            if framework is not None:
                yield from not_offered_causes(framework.handle.cluster, pod)
                yield from unhealthy_causes(framework.handle.cluster, told.message)
            return
        yield from self._unseen(pod, refused)

    def _unseen(self, pod: Pod, refused: str) -> Iterator[Cause]:
        """kube-scheduler has written nothing: has it tried this pod, or any pod?"""
        histories = self._histories
        name = pod.spec.scheduler_name or "default-scheduler"
        yield from self._not_configured(name)
        if self._is_young(pod):
            yield _cause(
                "JustCreated",
                Certainty.LIKELY,
                "the pod was created just now: kube-scheduler may not have tried it yet",
                "run this again in some seconds",
            )
        if refused:
            yield _cause(
                "RefusedInTree",
                Certainty.LIKELY,
                f"kube-scheduler's own plugins would leave no node; then koordpy is not called: {refused}",
                "free resources or change the pod's requests; koordpy whatif shows what would help",
            )
        if not histories.calls and not histories.bound_elsewhere[name]:
            yield _cause(
                "SchedulerNotRunning",
                Certainty.LIKELY,
                f"since {format_time(histories.began)} koordpy was not called for any "
                "pod and "
                f"saw none with schedulerName {name} being placed, and kube-scheduler has written no "
                "PodScheduled condition to this one: it may not be running, or not be the leader",
                f"check that a kube-scheduler with a profile {name} runs and holds its Lease",
            )
        if histories.calls and not refused and not self._is_young(pod):
            resources = ", ".join(sorted(_resources(pod))) or "none"
            yield _cause(
                "NotManaged",
                Certainty.POSSIBLE,
                "koordpy is called for other pods: the extender entry may have managedResources, and the "
                "pod "
                f"requests none of them (it requests {resources}); or another scheduler has the same "
                "schedulerName and no extender",
                "remove managedResources from the entry, or add a resource to it that such pods request",
            )
        if not refused and _claims(pod):
            yield _cause(
                "RefusedInTree",
                Certainty.POSSIBLE,
                f"the pod has volumes ({', '.join(_claims(pod))}); kube-scheduler's volume plugins, which "
                "koordpy "
                "cannot run, may reject every node",
                "check whether the claims are bound: kubectl describe pvc",
            )

    def _not_configured(self, name: str) -> Iterator[Cause]:
        """Pods of a schedulerName are bound to nodes, and koordpy is not called for any."""
        histories = self._histories
        if not histories.calls and histories.bound_elsewhere[name]:
            yield _cause(
                "ExtenderNotConfigured",
                Certainty.LIKELY,
                "koordpy was not called for any pod since "
                f"{format_time(histories.began)}, but "
                f"{counted(histories.bound_elsewhere[name], 'pod')} with schedulerName {name} were bound "
                "meanwhile",
                "add an `extenders` entry that calls koordpy to that kube-scheduler "
                "(deploy/scheduler/kube-scheduler-config.yaml; koordpy doctor --scheduler-config FILE)",
            )

    def _is_young(self, pod: Pod) -> bool:
        at = created(pod)
        return at is not None and (self._histories.now() - at).total_seconds() < FRESH_SECONDS

    def _refused_in_tree(self, pod: Pod) -> str:
        """Return what kube-scheduler's own plugins would answer if they left no node now; else empty."""
        whole = self._profiles.whole_of(pod.spec.scheduler_name)
        if whole is None or not whole.handle.cluster.synced:
            return ""
        nodes = whole.handle.nodes.all()
        if not len(nodes):
            return "no nodes available to schedule pods"
        outcome = whole.find_feasible(CycleState(), pod, nodes)
        if outcome.error is not None or outcome.feasible.any() or not _all_in_tree(outcome):
            return ""
        return outcome.message()


def _all_in_tree(outcome: FilterOutcome) -> bool:
    """Return whether kube-scheduler's own plugins reject, so that koordpy would not have been called."""
    if not outcome.prefilter.is_success:
        return outcome.prefilter.plugin in IN_TREE
    return all(refusals.plugin in IN_TREE for refusals in outcome.refusals)


def _cause(cause: str, certainty: Certainty, message: str, fix: str) -> Cause:
    return Cause(cause=cause, certainty=certainty, message=message, fix=fix)


def _resources(pod: Pod) -> set[str]:
    return {
        name
        for container in (*pod.spec.containers, *pod.spec.init_containers)
        for amounts in (container.resources.requests, container.resources.limits)
        for name in amounts
    }


def _claims(pod: Pod) -> list[str]:
    return [
        volume.persistent_volume_claim.claim_name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None
    ]
