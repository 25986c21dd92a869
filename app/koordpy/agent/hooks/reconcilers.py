"""What the reconcilers of all hooks want for one directory (`pkg/koordlet/runtimehooks/reconciler`)."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from koordpy.agent.hooks.metrics import RECONCILER_INVOKED, measured
from koordpy.agent.interface.cgroups import Update
from koordpy.agent.interface.hook import Hook, HookError, Level, Reconciler, Request, Response
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


class OwnUpdate(NamedTuple):
    """An update, and the name of the hook that wants it."""

    hook: str
    update: Update


@dataclass(frozen=True)
class Wanted:
    """What is wanted for one directory."""

    updates: tuple[OwnUpdate, ...] = ()
    enforced: tuple[Enforced, ...] = ()


class Reconcilers:
    """The reconcilers of all hooks, by level. Of each resource a pod has at most one."""

    def __init__(self, hooks: Iterable[Hook], node_name: str) -> None:
        """Raise HookError for two reconcilers of the same level and resource with a class in common."""
        self._node_name = node_name
        self._of_level: dict[Level, list[tuple[str, Reconciler]]] = {level: [] for level in Level}
        for hook in hooks:
            for reconciler in hook.reconcilers():
                level, resource = reconciler.level, reconciler.resource
                for owner, other in self._of_level[level]:
                    if other.resource == resource and _overlap(other.qos, reconciler.qos):
                        raise HookError(
                            f"runtime hooks {owner} and {hook.name} both decide {resource} on level {level} "
                            "for the same pods"
                        )
                self._of_level[level].append((hook.name, reconciler))

    def has(self, level: Level) -> bool:
        """Return whether anything is reconciled on a level."""
        return bool(self._of_level[level])

    def wanted(self, level: Level, request: Request, qos: QoSClass | None = None) -> Wanted:
        """Return what is wanted for one request; `qos` is the class by which reconcilers are chosen.

        A reconciler that fails wants nothing, and is logged.
        """
        updates: list[OwnUpdate] = []
        enforced: list[Enforced] = []
        for hook, reconciler in self._of_level[level]:
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
                updates += [OwnUpdate(hook, each) for each in hook_requests.updates(request, response)]
            elif reconciler.resource in response.values:
                value = response.values[reconciler.resource]
                enforced.append(Enforced(reconciler, request, value))
        return Wanted(tuple(updates), tuple(enforced))


def _overlap(left: frozenset[QoSClass] | None, right: frozenset[QoSClass] | None) -> bool:
    return left is None or right is None or not left.isdisjoint(right)
