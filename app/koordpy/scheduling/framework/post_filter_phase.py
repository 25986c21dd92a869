"""What happens when a pod fits nowhere: PostFilter, and what kube-scheduler's own preemption proposes."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from koordpy.api.core import Pod
from koordpy.scheduling.interface import AfterPostFilter, ExplainsFailure, PostFilter, Preempt, Victims
from koordpy.scheduling.interface.cycle_state import SCHEDULING_PHASE, CycleState
from koordpy.scheduling.interface.diagnosis import existing_diagnosis
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import SUCCESS, Code, Status

from .enabled_plugins import EnabledPlugins
from .plugin_call import Broken, call, call_async

log = logging.getLogger(__name__)


class PostFilterPhase:
    """The plugins that run when a pod fits nowhere; on request those alone that do beside kube-scheduler."""

    def __init__(self, enabled: EnabledPlugins, *, beside_kube_scheduler: bool = False) -> None:
        self._post_filter = [
            (name, plugin)
            for name, plugin in enabled.at("post_filter", PostFilter)
            if plugin.beside_kube_scheduler or not beside_kube_scheduler
        ]
        self.enabled = bool(self._post_filter)
        """Whether there is any PostFilter plugin."""
        self._preempt = enabled.at("post_filter", Preempt)
        self._explains = enabled.at("post_filter", ExplainsFailure)
        self._after_post_filter = enabled.at("post_filter", AfterPostFilter)

    async def run_post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Run PostFilter and AfterPostFilter after no node was found."""
        state.write(SCHEDULING_PHASE, "PostFilter")
        result: PostFilterResult | None = None
        reasons: list[str] = []
        rejector = ""
        final: Status | None = None
        for name, plugin in self._post_filter:
            try:
                nominated, status = await call_async(
                    state, "PostFilter", name, plugin.post_filter, state, pod, outcome
                )
            except Broken as failure:
                result, final = None, failure.status
                break
            if status.is_success or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                result, final = nominated, status.by(name)
                break
            if not status.is_rejected:
                result, final = None, Status(Code.ERROR, status.reasons, name, error=status.error)
                break
            if nominated is not None and nominated.override:
                result = nominated
            reasons.extend(status.reasons)
            rejector = rejector or name
        if final is None:
            final = Status(Code.UNSCHEDULABLE, tuple(reasons), rejector)
        final = _with_suggestion(state, final)
        for name, observer in self._after_post_filter:
            with suppress(Broken):
                call(state, "AfterPostFilter", name, observer.after_post_filter, state, pod, outcome, final)
        state.delete(SCHEDULING_PHASE)
        return result, final

    def explain_failure(self, state: CycleState, pod: Pod, outcome: FilterOutcome) -> list[str]:
        """Return plugins' reasons why a pod fits nowhere, without preempting for it."""
        reasons: list[str] = []
        for name, plugin in self._explains:
            try:
                reasons.extend(plugin.reasons(state, pod, outcome))
            except Exception:
                log.exception("plugin %s raised while explaining a failure", name)
        return reasons

    def run_preempt(
        self, state: CycleState, pod: Pod, victims: Mapping[str, Victims]
    ) -> tuple[Mapping[str, Victims], Status]:
        """Let plugins change proposed victims by node name; each sees the result of the previous one."""
        state.write(SCHEDULING_PHASE, "PostFilter")
        try:
            for name, plugin in self._preempt:
                victims = call(state, "PostFilter", name, plugin.preempt, state, pod, victims)
        except Broken as failure:
            return {}, failure.status
        finally:
            state.delete(SCHEDULING_PHASE)
        return victims, SUCCESS


def _with_suggestion(state: CycleState, status: Status) -> Status:
    """Add a plugin's suggestion to the reasons, which end in the pod's condition and event."""
    diagnosis = existing_diagnosis(state)
    if diagnosis is None or diagnosis.suggestion is None:
        return status
    return replace(status, reasons=(*status.reasons, diagnosis.suggestion.reason))
