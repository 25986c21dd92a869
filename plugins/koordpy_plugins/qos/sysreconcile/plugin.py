"""SystemConfigReconcile: keep the kernel settings of NodeSLO `systemStrategy`.

Rules: Koordinator, `pkg/koordlet/qosmanager/plugins/sysreconcile`.
"""

import logging
from typing import ClassVar

from koordpy.agent.interface import RECONCILE_INTERVAL, CgroupError, FlagSet, Handle, QOSPlugin, Update
from koordpy.agent.interface.gates import SYSTEM_CONFIG
from koordpy.agent.toolkit import rounds
from koordpy.api import quantity
from koordpy.api.needs import Needs, Privilege, PrivilegeNeed
from koordpy.api.plugin import PluginArgs
from koordpy.api.slo.system import SystemStrategy

from . import settings

log = logging.getLogger(__name__)


class SystemConfigReconcile(QOSPlugin):
    """The system configuration strategy."""

    name: ClassVar[str] = "SystemConfigReconcile"
    feature: ClassVar[str | None] = SYSTEM_CONFIG
    interval_flag: ClassVar[str | None] = RECONCILE_INTERVAL
    needs: ClassVar[Needs] = Needs(
        elsewhere=("NodeSLOs with systemStrategy (koord-manager creates them)",),
        privileges=(
            PrivilegeNeed(
                privilege=Privilege.PROC,
                purpose="kernel settings below /proc/sys",
                without="they are not written, and the log says so",
            ),
            PrivilegeNeed(
                privilege=Privilege.SYS,
                purpose="kernel settings below /sys/kernel",
                without="they are not written, and the log says so",
            ),
        ),
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._of: tuple[SystemStrategy, int] | None = None
        self._updates: list[Update] = []
        self._problem = ""

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval between rounds."""
        rounds.declare_interval(flags)

    async def run(self) -> None:
        """Run rounds until cancelled."""
        await rounds.run(self.handle, self.name, self.reconcile)

    def reconcile(self) -> None:
        """Write the settings, if the node and its NodeSLO are known."""
        slo, node = self.handle.states.node_slo(), self.handle.states.node()
        strategy = slo.system_strategy if slo is not None else None
        if strategy is None or node is None:
            return
        memory = quantity.value(node.status.capacity.get("memory", 0))
        if memory <= 0:
            return
        if self._of is None or self._of[0] is not strategy or self._of[1] != memory:
            self._updates, self._of = settings.updates(strategy, memory), (strategy, memory)
        self.handle.executor.update_batch(self._updates)
        if strategy.sched_features:
            self._set_features(strategy)

    def _set_features(self, strategy: SystemStrategy) -> None:
        try:
            current = self.handle.cgroups.read("sched_features", "")
            updates = settings.sched_features(strategy, current)
        except (CgroupError, ValueError) as error:
            if str(error) != self._problem:
                log.warning("scheduler features are left as they are: %s", error)
            self._problem = str(error)
            return
        self._problem = ""
        self.handle.executor.update_batch(updates, cached=False)
