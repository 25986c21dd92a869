"""Runtime hooks by reconciliation: a service that keeps the values of all hooks in place.

States update the rules, and pods the plans. What is wanted is written at once after a change. At an interval
a part of it is requested again, because others write these files, too. Source: Koordinator,
`pkg/koordlet/runtimehooks/runtimehooks.go`.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

from koordpy.agent.hooks.plans import Plan, Plans, by_hook
from koordpy.agent.hooks.reconcilers import Reconcilers, Wanted
from koordpy.agent.hooks.rules import Rules
from koordpy.agent.hooks.stages import Stages
from koordpy.agent.interface.cgroups import Update
from koordpy.agent.interface.flags import FlagSet
from koordpy.agent.interface.handle import Handle
from koordpy.agent.interface.hook import KUBE_QOS_CLASSES, Hook, Level
from koordpy.agent.interface.states import CallbackTarget, StateType
from koordpy.agent.toolkit import hook_requests

log = logging.getLogger(__name__)

INTERVAL_FLAG: Final = "runtime-hooks-reconcile-interval"
_MINIMUM_INTERVAL: Final = 1.0
SHARES: Final = 3
"""In so many rounds without a change all values are compared with the files once."""


class RuntimeHooks:
    """The runtime hooks of one node."""

    name: Final = "runtime-hooks"

    def __init__(self, hooks: Iterable[Hook], handle: Handle) -> None:
        """Use the hooks whose gates are on. Raises HookError if two of them contradict each other."""
        self._due = asyncio.Event()
        self._rounds = 0
        self.refused: dict[str, str] = {}
        """Why hooks are not used although their gates are on; only `usable` leaves some out."""
        self._use(hooks, handle)

    @classmethod
    def usable(cls, hooks: Iterable[Hook], handle: Handle) -> "RuntimeHooks":
        """Use all hooks, or those that work and contradict no other; koordpy's own have precedence."""
        every = list(hooks)
        try:
            return cls(every, handle)
        except Exception as error:
            log.warning("not all runtime hooks can be used: %s", error)
        accepted: list[Hook] = []
        refused: dict[str, str] = {}
        for hook in sorted(every, key=lambda hook: (not _is_own(hook), hook.name)):
            try:
                cls([*accepted, hook], handle)
            except Exception as error:
                log.exception("runtime hook %s is not used", hook.name)
                refused[hook.name] = f"is not used: {type(error).__name__}: {error}"
            else:
                accepted.append(hook)
        made = cls(accepted, handle)
        made.refused = refused
        return made

    def _use(self, hooks: Iterable[Hook], handle: Handle) -> None:
        used = [hook for hook in sorted(hooks, key=lambda hook: hook.name) if _is_used(hook)]
        rules = Rules(rule for hook in used for rule in hook.rules())
        reconcilers = Reconcilers(used, handle.node_name)
        stages = Stages((each for hook in used for each in hook.stages()), handle.node_name)
        self._handle, self.hooks, self.rules = handle, used, rules
        self.reconcilers, self.stages = reconcilers, stages
        self.plans = Plans(reconcilers, handle.layout, handle.cgroups)
        self._executors = {hook.name: hook.handle.executor for hook in used}
        self._fixed: list[Wanted] = []
        self._rules_changed = True

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval."""
        flags.declare(
            INTERVAL_FLAG, timedelta(seconds=10), "time between two rounds of runtime hooks without a change"
        )

    def setup(self) -> None:
        """Register callbacks. Called once, before anything is listed."""
        for type_ in StateType:
            self._handle.states.register_callbacks(
                type_, f"runtime-hooks-rule-{type_}", "rules of runtime hooks", self._state_changed
            )

    async def run(self) -> None:
        """Reconcile until cancelled: at once after each change, and a share of all pods at the interval."""
        interval = self._handle.flags.duration(INTERVAL_FLAG).total_seconds()
        if interval < _MINIMUM_INTERVAL:
            log.warning("--%s is %g s; %g s is used", INTERVAL_FLAG, interval, _MINIMUM_INTERVAL)
            interval = _MINIMUM_INTERVAL
        clock = asyncio.get_running_loop()
        self._use_known_states()
        try:
            while True:
                self._due.clear()
                self.round()
                next_round = clock.time() + interval
                while (left := next_round - clock.time()) > 0:
                    try:
                        async with asyncio.timeout(left):
                            await self._due.wait()
                    except TimeoutError:
                        break
                    self._due.clear()
                    self.apply_changes()
        finally:
            self._stop(self.hooks)

    def exchange(self, hooks: Iterable[Hook], handle: Handle) -> None:
        """Use other hooks from now on, which get all states that are known.

        Raises HookError if two of them contradict each other; then the old ones stay.
        """
        old = self.hooks
        self._use(hooks, handle)
        self._stop([hook for hook in old if hook not in self.hooks])
        self._use_known_states()
        self._due.set()

    def _use_known_states(self) -> None:
        """Give everything that is known to the rules, before anything is written by them."""
        states = self._handle.states
        slo = states.node_slo()
        target = CallbackTarget(states.pods(), slo.host_applications if slo is not None else [])
        known = {
            StateType.NODE_SLO_SPEC: slo,
            StateType.NODE_TOPOLOGY: states.topology(),
            StateType.NODE_METADATA: states.node(),
        }
        given = {type_: state for type_, state in known.items() if state is not None}
        self.rules.update_all({**given, StateType.ALL_PODS: None}, target)

    def _stop(self, hooks: Iterable[Hook]) -> None:
        for hook in hooks:
            try:
                hook.stop()
            except Exception:
                log.exception("runtime hook %s failed to stop", hook.name)

    def not_ready(self) -> str | None:
        """Return why the values of no pod were written yet."""
        return None if self._rounds else "the first round is not over"

    def round(self) -> None:
        """Apply changes, and request the values of a share of the pods again, as well as those of processes.

        Whatever others wrote to the files is so replaced after `SHARES` rounds.
        """
        changed = {id(plan) for plan in self.apply_changes()}
        share = self.plans.share(self._rounds % SHARES, SHARES)
        self._write([plan for plan in share if id(plan) not in changed])
        for plan in self.plans:
            for item in plan.enforced:
                item.enforce()
        self._rounds += 1

    def apply_changes(self) -> list[Plan]:
        """Compute and write what pods and rules that changed want; return the plans that changed."""
        rules_changed, self._rules_changed = self._rules_changed, False
        if rules_changed:
            self._fixed = list(self._directories_and_applications())
        changed = self.plans.refresh(self._handle.states.pods(), everything=rules_changed)
        self._write(changed)
        for plan in changed:
            for item in plan.enforced:
                item.enforce()
        return changed

    def updates(self) -> list[Update]:
        """Return all updates that are wanted now."""
        found = by_hook(self.plans, self._fixed)
        return [update for writes in found.values() for update in writes.everything]

    def _write(self, plans: Sequence[Plan]) -> None:
        """Write what plans want, and the values of QoS directories and host applications."""
        for hook, writes in by_hook(plans, self._fixed).items():
            executor = self._executors[hook]
            executor.update_batch(writes.others)
            executor.leveled_update_batch((writes.pod_limits, writes.limits_below))

    def _state_changed(self, type_: StateType, state: Any, target: CallbackTarget) -> None:
        if type_ is StateType.ALL_PODS:
            self.rules.update(type_, None, target)
            self._due.set()
        elif self.rules.update(type_, state, target) or type_ is StateType.NODE_SLO_SPEC:
            self._rules_changed = True  # a NodeSLO has the host applications, too
            self._due.set()

    def _directories_and_applications(self) -> Iterable[Wanted]:
        layout, slo = self._handle.layout, self._handle.states.node_slo()
        for qos in KUBE_QOS_CLASSES:
            yield self.reconcilers.wanted(Level.KUBE_QOS, hook_requests.kube_qos(layout, qos))
        for application in slo.host_applications if slo is not None else ():
            request = hook_requests.host_application(layout, application)
            yield self.reconcilers.wanted(Level.HOST_APPLICATION, request)


def _is_own(hook: Hook) -> bool:
    return type(hook).__module__.startswith("koordpy_plugins.")


def _is_used(hook: Hook) -> bool:
    """Return whether a hook's gate is on and it can act; say once why it cannot."""
    if not hook.is_enabled():
        return False
    reason = hook.refusal()
    if reason is not None:
        log.error("feature gate %s is refused, runtime hook %s is off: %s", hook.feature, hook.name, reason)
    return reason is None
