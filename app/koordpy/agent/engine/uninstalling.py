"""Restores original values when the agent is uninstalled, and not when its pod is only replaced.

SIGTERM looks the same in both cases; the agent's DaemonSet tells them apart. When that is deleted, everything
is undone at once, before the pod is. When the pod ends and the DaemonSet does not want one on this node any
more (another nodeSelector, another label of the node), everything is undone then. In all other cases the next
pod takes over what this one wrote, so that best-effort pods are never without limits in between.
"""

import asyncio
import logging
from collections import Counter
from typing import Final

from koordpy.agent.cgroups.changes import Changes, ChangesError
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.pauses import Pause, Scope
from koordpy.agent.cgroups.undo import Outcome, Undo
from koordpy.agent.interface.states import States
from koordpy.api.core import DaemonSet
from koordpy.api.needs import Right
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.selector import Selector
from koordpy.lib.clock import Clock

log = logging.getLogger(__name__)

_ORPHAN: Final = "orphan"
"""The finalizer of `--cascade=orphan`, with which pods outlive their DaemonSet."""


def rights(daemon_set: str | None) -> tuple[Right, ...]:
    """Return what is needed to follow the DaemonSet `NAMESPACE/NAME`; nothing for None."""
    if not daemon_set:
        return ()
    namespace, _, name = daemon_set.partition("/")
    return tuple(Right(verb, "daemonsets", "apps", namespace, name) for verb in ("list", "watch"))


class Uninstalling:
    """Follows the DaemonSet that the agent's pod belongs to, `NAMESPACE/NAME`."""

    name: Final = "uninstalling"

    def __init__(
        self,
        daemon_set: str,
        cluster: Cluster,
        states: States,
        files: CgroupFiles,
        changes: Changes,
        clock: Clock,
    ) -> None:
        """Raise ValueError for another form than NAMESPACE/NAME."""
        namespace, _, name = daemon_set.partition("/")
        if not namespace or not name or "/" in name:
            raise ValueError(f"agent.undoWithDaemonSet: got {daemon_set!r}, expected NAMESPACE/NAME")
        self.daemon_set, self._states = daemon_set, states
        self._files, self._changes, self._clock = files, changes, clock
        self._orphaning = False
        self._undone = ""
        self._store = cluster.late_store(
            DaemonSet, selector=Selector(namespace, fields=f"metadata.name={name}")
        )

    def setup(self) -> None:
        """Follow the DaemonSet from now on."""
        self._store.subscribe(self._seen, lambda _, new: self._seen(new), self._deleted)

    async def run(self) -> None:
        """Wait; when the pod ends, undo if the DaemonSet wants no other one on this node."""
        try:
            await asyncio.Event().wait()
        finally:
            found, node = self._store.get(*self.daemon_set.split("/")), self._states.node()
            if found is not None and node is not None and not self._undone:
                from koordpy.api import node_affinity

                if not node_affinity.required(found.spec.template.spec).matches_node(node):
                    self._undo("has no pod on this node any more")

    def not_ready(self) -> str | None:
        """Return that everything was undone, None until then."""
        return self._undone or None

    def _seen(self, found: DaemonSet) -> None:
        if found.metadata.deletion_timestamp is None:
            return
        self._orphaning = self._orphaning or _ORPHAN in found.metadata.finalizers
        if not self._orphaning:
            self._undo("is being deleted")

    def _deleted(self, _: DaemonSet) -> None:
        if not self._orphaning:
            self._undo("was deleted")
        self._orphaning = False

    def _undo(self, why: str) -> None:
        if self._undone:
            return
        self._undone = f"DaemonSet {self.daemon_set} {why}: original values are restored"
        pause = Pause(Scope.ALL, since=self._clock.now().timestamp(), until_restart=True)
        try:
            results = Undo(self._files, self._changes).run(pause)
        except ChangesError as error:
            log.error("%s; `koordpy qos undo --all` restores them: %s", self._undone, error)
            return
        counts = Counter(result.outcome.value for result in results)
        summary = ", ".join(f"{number} {outcome}" for outcome, number in counts.items())
        log.warning("%s: %s", self._undone, summary or "nothing had been changed")
        for result in results:
            if result.outcome in (Outcome.FAILED, Outcome.OTHERS):
                change = result.change
                reason = result.error or f"somebody else has set it to {result.current}"
                log.error("%s of %s is not restored: %s", change.resource, change.directory or "/", reason)
