"""What the reconcilers of all hooks want for one directory (`pkg/koordlet/runtimehooks/reconciler`)."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from koordpy.agent.hooks.metrics import RECONCILER_INVOKED, measured
from koordpy.agent.interface.cgroups import Update
from koordpy.agent.interface.hook import HookError, Level, Reconciler, Request, Response
from koordpy.agent.toolkit import hook_requests
from koordpy.api.qos import QoSClass

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Enforced:
    """A value that has no file, and is kept in place by its reconciler."""

    reconciler: Reconciler
    request: Request
    value: int | str

    def enforce(self) -> None:
        """Bring the value about again; a failure is logged."""
        assert self.reconciler.enforce is not None
        try:
            self.reconciler.enforce(self.request, self.value)
        except Exception:
            log.exception("runtime hooks cannot enforce %s", self.reconciler.resource)

    def forget(self) -> None:
        """Tell the reconciler that the directory is gone."""
        if self.reconciler.forget is not None:
            try:
                self.reconciler.forget(self.request)
            except Exception:
                log.exception("runtime hooks cannot forget %s", self.reconciler.resource)

    @property
    def key(self) -> tuple[str, str, str]:
        """What the value is of: the resource, on a level, of a directory."""
        return self.reconciler.level, self.reconciler.resource, self.request.cgroup_dir


@dataclass(frozen=True)
class Wanted:
    """What is wanted for one directory."""

    updates: tuple[Update, ...] = ()
    enforced: tuple[Enforced, ...] = ()


class Reconcilers:
    """The reconcilers of all hooks, by level. Of each resource a pod has at most one."""

    def __init__(self, reconcilers: Iterable[Reconciler], node_name: str) -> None:
        """Raise HookError for two reconcilers of the same level and resource with a class in common."""
        self._node_name = node_name
        self._of_level: dict[Level, list[Reconciler]] = {level: [] for level in Level}
        for reconciler in reconcilers:
            for other in self._of_level[reconciler.level]:
                if other.resource == reconciler.resource and _overlap(other.qos, reconciler.qos):
                    raise HookError(
                        f"two runtime hooks decide {reconciler.resource} on level {reconciler.level} for the "
                        f"same pods"
                    )
            self._of_level[reconciler.level].append(reconciler)

    def has(self, level: Level) -> bool:
        """Return whether anything is reconciled on a level."""
        return bool(self._of_level[level])

    def wanted(self, level: Level, request: Request, qos: QoSClass | None = None) -> Wanted:
        """Return what is wanted for one request; `qos` is the class by which reconcilers are chosen.

        A reconciler that fails wants nothing, and is logged.
        """
        updates: list[Update] = []
        enforced: list[Enforced] = []
        for reconciler in self._of_level[level]:
            if reconciler.qos is not None and qos not in reconciler.qos:
                continue
            response = Response()
            try:
                with measured(RECONCILER_INVOKED, self._node_name, level, reconciler.resource):
                    reconciler.apply(request, response)
            except HookError as error:
                log.info("runtime hooks: %s of %s: %s", reconciler.resource, request.cgroup_dir, error)
                continue
            except Exception:
                log.exception("runtime hooks: %s of %s failed", reconciler.resource, request.cgroup_dir)
                continue
            if reconciler.enforce is None:
                updates += hook_requests.updates(request, response)
            elif reconciler.resource in response.values:
                value = response.values[reconciler.resource]
                enforced.append(Enforced(reconciler, request, value))
        return Wanted(tuple(updates), tuple(enforced))


def _overlap(left: frozenset[QoSClass] | None, right: frozenset[QoSClass] | None) -> bool:
    return left is None or right is None or not left.isdisjoint(right)
