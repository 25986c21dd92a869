"""Apply profiles again to pending pods, which may be older than the profile or than a change of it.

Only profiles that opt in are re-applied, and only to pods that have no node yet. Which pods have been patched
is kept in memory only: after a restart every pending pod is reconciled once more. `labelSuffixes` are
appended each time, as in Koordinator.

Source: Koordinator, `pkg/controller/colocationprofile`.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from koordpy.admission.handler import Errored, Request
from koordpy.api import extension, json_merge
from koordpy.api.core import Namespace, Pod, PriorityClass
from koordpy.api.document import Document
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.label_selector import SelectorError, fast_of
from koordpy.api.needs import Needs, Right
from koordpy.api.patch import clone
from koordpy.api.scheme import DecodeError, decode, resource_of
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.cluster.store import Store
from koordpy.controllers.interface import Controller, Handle, Plan
from koordpy.controllers.reconcile import ReconcileError, reconcile_forever, retried
from koordpy.lib.feature_gates import FeatureSpec, Stage
from koordpy.lib.token_bucket import TokenBucket
from koordpy.lib.ttl_cache import TTLCache

from .application import Target, apply
from .args import ColocationProfileArgs
from .probability import is_skipped, percentage

log = logging.getLogger(__name__)

PENDING: Final = "Pending"

_UNASKED: Store[PriorityClass] = Store(PriorityClass)
"""Existing pods keep their priority class, so no PriorityClass is ever looked up."""


@dataclass
class Summary:
    """The result of a reconciliation, in pods; `succeeded` includes those that needed no change."""

    desired: int = 0
    succeeded: int = 0
    changed: int = 0
    rate_limited: int = 0
    skipped: int = 0
    cached: int = 0


class ColocationProfileController(Controller):
    """The profile controller. The keys of its queue are names of profiles."""

    name: ClassVar[str] = "colocationprofile"
    feature: ClassVar[str | None] = "ColocationProfileController"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {
        "ColocationProfileController": FeatureSpec(False, Stage.ALPHA)
    }
    needs: ClassVar[Needs] = Needs(rights=(Right("get", "pods"), Right("patch", "pods")))
    args: ColocationProfileArgs

    def __init__(self, args: ColocationProfileArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        cluster, clock = handle.cluster, handle.clock
        self.queue = handle.queue(self.name)
        self.done = TTLCache(args.force_update_pod_duration, args.expire_pod_cache_duration, clock)
        """The pods to which a version of a profile was applied, as `resourceVersion/uid`."""
        self.limiter = TokenBucket(args.update_pod_qps, args.update_pod_qps_burst, clock)
        self._profiles = cluster.store(ClusterColocationProfile)
        self._waiting = cluster.store(Pod).index(_pending)
        self._namespaces = cluster.store(Namespace)

    def setup(self) -> None:
        """Follow the profiles."""
        self._profiles.subscribe(
            on_add=self._enqueue, on_update=lambda _, profile: self._enqueue(profile), on_delete=self._enqueue
        )

    async def run(self) -> None:
        """Reconcile every profile, then each on a change and after the interval."""
        for profile in self._profiles:
            self._enqueue(profile)
        await reconcile_forever(self.queue, self.reconcile)

    async def reconcile(self, name: str) -> float | None:
        """Apply a profile to the pending pods that it selects; return the time until the next reconciliation.

        Raises ReconcileError for an invalid selector or probability.
        """
        profile = self._profiles.get("", name)
        if profile is None or profile.metadata.deletion_timestamp or not self._is_managed(profile):
            return None
        selects = self._selector(profile)
        summary = Summary()
        for pod in self._waiting.get(PENDING):
            if selects(pod):
                await self._visit(profile, pod, summary)
        if summary.desired:
            log.info("ClusterColocationProfile %s: %s", name, summary)
        return self.args.reconcile_interval

    def plan(self, document: dict[str, Any]) -> Iterator[Plan]:
        """Yield what each managed profile would write to a pending pod; a probability above 0 counts as 1."""
        pod = decode(Pod, document)
        if not _is_pending(pod):
            return
        for profile in sorted(self._profiles, key=lambda item: item.metadata.name):
            try:
                probability = percentage(profile.spec.probability)
                if not self._is_managed(profile) or not self._selector(profile)(pod) or probability <= 0:
                    continue
                yield Plan(profile.metadata.name, self._patch(profile, pod, document))
            except (ReconcileError, Errored, ValueError) as error:
                yield Plan(profile.metadata.name, {}, str(error))

    def _enqueue(self, profile: ClusterColocationProfile) -> None:
        self.queue.add(profile.metadata.name)

    def _is_managed(self, profile: ClusterColocationProfile) -> bool:
        label = profile.metadata.labels.get(extension.LABEL_CONTROLLER_MANAGED)
        return self.args.reconcile_by_default or label == "true"

    def _selector(self, profile: ClusterColocationProfile) -> Callable[[Pod], bool]:
        """Return the predicate that decides whether a profile selects a pod.

        Unlike at admission, a profile without a selector selects nothing, an invalid selector is an error,
        and an unknown namespace does not match. Raises ReconcileError.
        """
        spec = profile.spec
        if spec.selector is None:
            return lambda _: False
        try:
            selector = fast_of(spec.selector)
            namespaces = None if spec.namespace_selector is None else fast_of(spec.namespace_selector)
        except SelectorError as error:
            raise ReconcileError(f"ClusterColocationProfile {profile.metadata.name}: {error}") from None

        def selects(pod: Pod) -> bool:
            if not selector.matches(pod.metadata.labels):
                return False
            if namespaces is None or namespaces.is_empty:
                return True
            namespace = self._namespaces.get("", pod.metadata.namespace)
            return namespace is not None and namespaces.matches(namespace.metadata.labels)

        return selects

    async def _visit(self, profile: ClusterColocationProfile, pod: Pod, summary: Summary) -> None:
        """Apply a profile to a pod, unless probability, an earlier application or the rate limit forbids."""
        summary.desired += 1
        if self._rolls_against(profile):
            summary.skipped += 1
            return
        key = f"{profile.metadata.resource_version}/{pod.metadata.uid}"
        if key in self.done:
            summary.cached += 1
            return
        if not self.limiter.take():
            summary.rate_limited += 1
            return
        try:
            summary.changed += await self._update(profile, pod)
        except (ApiError, ConnectionFailed, DecodeError, Errored) as error:
            name = profile.metadata.name
            log.warning("pod %s: ClusterColocationProfile %s: not applied: %s", pod.metadata.key, name, error)
            return
        summary.succeeded += 1
        self.done.add(key)

    def _rolls_against(self, profile: ClusterColocationProfile) -> bool:
        try:
            return is_skipped(percentage(profile.spec.probability), self.handle.rng)
        except ValueError as error:
            raise ReconcileError(f"ClusterColocationProfile {profile.metadata.name}: {error}") from None

    async def _update(self, profile: ClusterColocationProfile, pod: Pod) -> bool:
        """Patch a pod with a profile; return whether that changed anything.

        The pod is read from the API server: stores hold only a part of it, and a patch may concern all of it.
        Raises ApiError, ConnectionFailed, DecodeError, Errored.
        """
        client, meta, resource = self.handle.client, pod.metadata, resource_of(Pod)
        document = await client.get_raw(resource, meta.namespace, meta.name)
        current = decode(Pod, document)
        if current.metadata.uid != meta.uid or not _is_pending(current):
            return False
        patch = self._patch(profile, current, document)
        if not patch:
            return False
        await retried(
            lambda: client.patch_raw(resource, meta.namespace, meta.name, patch),
            rng=self.handle.rng,
            sleep=self.handle.sleep,
        )
        return True

    def _patch(self, profile: ClusterColocationProfile, pod: Pod, document: dict[str, Any]) -> dict[str, Any]:
        """Return the merge patch from a pod to the pod with a profile applied. Raises Errored."""
        after = Document(clone(document))
        request = Request(namespace=pod.metadata.namespace, name=pod.metadata.name, document=after)
        apply(profile, request, after, Target.EXISTING_POD, _UNASKED)
        return json_merge.diff(document, after.raw)


def _is_pending(pod: Pod) -> bool:
    return not pod.spec.node_name and pod.status.phase == PENDING


def _pending(pod: Pod) -> tuple[str, ...]:
    return (PENDING,) if _is_pending(pod) else ()
