"""The evictor that plugins see: the profile's filter and evict plugins behind limits and dry run.

Source: Koordinator, `pkg/descheduler/framework/runtime/evictor_proxy.go`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from koordpy.api.core import Pod
from koordpy.descheduling.explain.decisions import Decisions, EvictionDecision, Outcome
from koordpy.descheduling.interface import EvictOptions, EvictPlugin, FilterPlugin, Refusal
from koordpy.descheduling.metrics import PLUGIN_ERRORS, PODS_EVICTED
from koordpy.descheduling.proof.proving import ProfileProof, Unproved

from .limiter import EvictionLimiter

log = logging.getLogger(__name__)


def described(point: str, plugin: str, error: Exception) -> str:
    """Return an exception of a plugin with its type, without which `'name'` of a KeyError says nothing."""
    told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f'running {point} plugin "{plugin}": {told}'


@dataclass
class EvictorProxy:
    """One per profile. The plugin lists are filled after all plugins have been created."""

    limiter: EvictionLimiter
    decisions: Decisions
    dry_run: bool
    filters: Sequence[FilterPlugin] = ()
    evict_plugin: EvictPlugin | None = field(default=None)
    proof: ProfileProof | None = field(default=None)
    """None where evictions need no proof, as in Koordinator."""
    is_logged: bool = True
    profile: str = ""
    _logged: set[tuple[str, str, type[Exception]]] = field(default_factory=set)
    """Plugins, points and errors whose traceback was logged."""
    _failure_now: str = ""
    """How the plugin failed that `refusing_now` returned last; empty if it refused the pod."""

    def refusing(self, pod: Pod) -> FilterPlugin | None:
        """Return the first filter plugin that does not allow evicting a pod, None if all do."""
        for plugin in self.filters:
            try:
                if not plugin.filter(pod):
                    return plugin
            except Exception as error:  # it concerns one pod: the others are still decided
                self._failed(plugin, "Filter", pod, error)
                return plugin
        return None

    def refusing_now(self, pod: Pod) -> FilterPlugin | None:
        """Return the first filter plugin that does not allow evicting a chosen pod now, None if all do."""
        for plugin in self.filters:
            try:
                if not plugin.pre_eviction_filter(pod):
                    self._failure_now = ""
                    return plugin
            except Exception as error:
                self._failure_now = self._failed(plugin, "PreEvictionFilter", pod, error)
                return plugin
        return None

    def reason_of(self, plugin: FilterPlugin, pod: Pod) -> str | None:
        """Return why a filter plugin does not allow evicting a pod, or how it failed; None if it does."""
        try:
            return plugin.reason_against(pod)
        except Exception as error:
            return described("Filter", plugin.name, error)

    def reason_of_now(self, plugin: FilterPlugin, pod: Pod) -> str:
        """Return why a filter plugin does not allow an eviction, right after `refusing_now` returned it."""
        try:
            return self._failure_now or plugin.reason_against_now(pod)
        except Exception as error:
            return described("PreEvictionFilter", plugin.name, error)

    def reason_against(self, pod: Pod) -> str | None:
        """Return the reason of the first filter plugin that does not allow evicting a pod, None if all do."""
        reasons = (self.reason_of(plugin, pod) for plugin in self.filters)
        return next((reason for reason in reasons if reason is not None), None)

    def reason_now(self, pod: Pod) -> tuple[str, str] | None:
        """Return the first filter plugin that does not allow an eviction now, and why; None if all do."""
        for plugin in self.filters:
            reason = self.reason_of(plugin, pod)
            if reason is not None:
                return plugin.name, reason
        refusing = self.refusing_now(pod)
        return None if refusing is None else (refusing.name, self.reason_of_now(refusing, pod))

    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        """Evict a pod within the limits. A dry run writes nothing, but counts against the limits."""
        if self.evict_plugin is None:
            raise RuntimeError(f"pod {pod.metadata.key}: eviction was requested before the profile was ready")
        limit = self.limiter.exceeded(pod)
        if limit is not None:
            self._log("%s: pod %s is not evicted: %s", options.plugin_name, pod.metadata.key, limit.reason)
            self._keep(pod, options, Outcome.LIMITED, limit.reason)
            if not self.dry_run:
                labels = (options.plugin_name, pod.metadata.namespace, pod.spec.node_name)
                PODS_EVICTED.labels(limit.result, *labels).inc()
            return False
        proof = None if self.proof is None else self.proof.prove(pod, options.plugin_name)
        if isinstance(proof, Unproved):
            self._log("%s: pod %s is not evicted: %s", options.plugin_name, pod.metadata.key, proof.reason)
            outcome = Outcome.RECENTLY_MOVED if proof.recent else Outcome.UNPROVED
            self._keep(pod, options, outcome, proof.reason)
            return False
        if proof is not None:
            await asyncio.sleep(0)  # a proof is a whole scheduling cycle: yield, so that Leases are renewed
        is_dry_run = self.dry_run or self.evict_plugin.is_dry_run
        if self.proof is not None and proof is not None:
            self.proof.evicting(pod, options.plugin_name, proof, dry_run=is_dry_run)
        if self.dry_run:
            self._log(
                "%s: pod %s would be evicted (dry run): %s",
                options.plugin_name,
                pod.metadata.key,
                options.reason,
            )
        else:
            result: bool | Refusal = False
            try:
                result = await self.evict_plugin.evict(pod, options)
            except Exception as error:  # it concerns one pod: the run goes on
                result = Refusal(self._failed(self.evict_plugin, "Evict", pod, error))
            finally:
                if not result and self.proof is not None and proof is not None:
                    self.proof.stays(pod)
            if not result:
                self._keep(pod, options, Outcome.REFUSED, self._why_refused(pod, result))
                return False
        self.limiter.done(pod)
        target = "" if proof is None else proof.node
        self._keep(pod, options, Outcome.DRY_RUN if is_dry_run else Outcome.EVICTED, target=target)
        return True

    def _failed(self, plugin: EvictPlugin | FilterPlugin, point: str, pod: Pod, error: Exception) -> str:
        """Count and log an error of a plugin, its traceback once for each kind; return it in words."""
        told = described(point, plugin.name, error)
        if self.is_logged:
            PLUGIN_ERRORS.labels(self.profile, plugin.name, point).inc()
            kind = (plugin.name, point, type(error))
            if kind not in self._logged:
                self._logged.add(kind)
                log.error("profile %s: pod %s: %s", self.profile, pod.metadata.key, told, exc_info=error)
        return told

    def _log(self, message: str, *values: str) -> None:
        if self.is_logged:
            log.info(message, *values)

    def _why_refused(self, pod: Pod, result: bool | Refusal) -> str:
        if isinstance(result, Refusal):
            return result.reason
        assert self.evict_plugin is not None
        return self.reason_against(pod) or f"{self.evict_plugin.name} did not evict it, and gave no reason"

    def _keep(
        self, pod: Pod, options: EvictOptions, outcome: Outcome, detail: str = "", target: str = ""
    ) -> None:
        self.decisions.evicting(
            EvictionDecision(
                pod=pod.metadata.key,
                node=pod.spec.node_name,
                plugin=options.plugin_name,
                reason=options.reason,
                outcome=outcome,
                detail=detail,
                target=target,
            )
        )


@dataclass(frozen=True)
class PluginEvictor:
    """A profile's evictor for one plugin: evictions carry the plugin's name."""

    proxy: EvictorProxy
    plugin_name: str

    def filter(self, pod: Pod) -> bool:
        """Return whether all filter plugins allow evicting a pod; a refusal is recorded with the run."""
        refusing = self.proxy.refusing(pod)
        if refusing is None:
            return True
        self.proxy.decisions.filtered(
            pod, refusing.name, lambda refused: self.proxy.reason_of(refusing, refused)
        )
        return False

    def reason_against(self, pod: Pod) -> str | None:
        """Return why a filter plugin does not allow evicting a pod, None if all allow it."""
        return self.proxy.reason_against(pod)

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Return whether all filter plugins allow evicting a pod right now; a refusal is recorded."""
        refusing = self.proxy.refusing_now(pod)
        if refusing is None:
            return True
        self.proxy.decisions.filtered(
            pod, refusing.name, lambda refused: self.proxy.reason_of_now(refusing, refused)
        )
        return False

    async def evict(self, pod: Pod, options: EvictOptions) -> bool:
        """Evict a pod within the limits; a dry run only counts it."""
        if not options.plugin_name:
            options = replace(options, plugin_name=self.plugin_name)
        return await self.proxy.evict(pod, options)

    def skipped(self, pods: Sequence[Pod], reason: str | Callable[[], str]) -> None:
        """Record candidates that the plugin decided not to evict."""
        self.proxy.decisions.skipped(pods, self.plugin_name, reason)
