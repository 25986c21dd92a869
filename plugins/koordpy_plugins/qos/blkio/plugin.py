"""BlkioReconcile: limits, weights and latency targets of block devices, for best-effort pods and single pods.

NodeSLO `resourceQOSStrategy.beClass.blkioQOS` limits all best-effort pods together, the annotation
`koordinator.sh/blkioQOS` a single pod, and `cgroupRoot.blkioQOS` sets latency targets and cost models of
blk-iocost for the node. Rules: Koordinator, `pkg/koordlet/qosmanager/plugins/blkio`.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from koordpy.agent.interface import (
    RECONCILE_INTERVAL,
    CgroupLayout,
    FlagSet,
    Handle,
    PodMeta,
    QOSPlugin,
    Update,
)
from koordpy.agent.interface.facts import NODE_LOCAL_STORAGE_INFO, LocalStorageInfo
from koordpy.agent.interface.gates import BLK_IO_RECONCILE
from koordpy.agent.toolkit import rounds
from koordpy.api.core import PersistentVolumeClaim
from koordpy.api.needs import Needs
from koordpy.api.plugin import PluginArgs
from koordpy.api.slo.resource_qos import ResourceQOSStrategy
from koordpy.cluster.store import Store

from . import configured
from .disks import Disks, TargetError
from .targets import Reader, updates

log = logging.getLogger(__name__)

KUBELET_ROOT_FLAG = "var-lib-kubelet-dir"


@dataclass(frozen=True)
class Inputs:
    """The inputs of one round."""

    storage: LocalStorageInfo | None
    strategy: ResourceQOSStrategy | None
    pods: Sequence[PodMeta]
    volume_of_claim: Callable[[str, str], str]
    """Returns the volume of a claim (namespace, name); "" if it has none."""
    kubelet_root: str


class BlkioReconcile(QOSPlugin):
    """The block I/O strategy."""

    name: ClassVar[str] = "BlkioReconcile"
    feature: ClassVar[str | None] = BLK_IO_RECONCILE
    interval_flag: ClassVar[str | None] = RECONCILE_INTERVAL
    needs: ClassVar[Needs] = Needs(
        later=(PersistentVolumeClaim,),
        elsewhere=(
            "cgroup v1",
            "cgroup files of the node, writable",
            "NodeSLOs with resourceQOSStrategy (koord-manager creates them)",
        ),
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._claims: Store[PersistentVolumeClaim] | None = None
        self._problems: dict[str, str] = {}
        self._warned_of: ResourceQOSStrategy | None = None

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval between rounds, and where the kubelet keeps volumes."""
        rounds.declare_interval(flags)
        flags.declare(KUBELET_ROOT_FLAG, "/var/lib/kubelet/", "the kubelet's folder, with its volumes")

    def setup(self) -> None:
        """Follow the claims of volumes, if the gate is on: pods name claims, mount points name volumes."""
        if self.handle.gates.enabled(BLK_IO_RECONCILE) and not self.handle.cgroups.unified:
            self._claims = self.handle.cluster.store(PersistentVolumeClaim, optional=True)

    async def run(self) -> None:
        """Run rounds until cancelled."""
        if self.handle.cgroups.unified:
            log.warning("%s is off: it writes files of cgroup v1, and this node has v2", self.name)
            await asyncio.Event().wait()
        await rounds.run(self.handle, self.name, self.reconcile)

    def reconcile(self) -> None:
        """Write what is wanted in every directory; the executor leaves out what is there already."""
        states = self.handle.states
        slo = states.node_slo()
        strategy = slo.resource_qos_strategy if slo is not None else None
        if strategy is not None and strategy is not self._warned_of:
            self._warned_of = strategy
            for name in configured.unsupported(strategy):
                log.warning("blocks of %s have no effect: only beClass and cgroupRoot may have some", name)
        inputs = Inputs(
            storage=self.handle.metrics.fact(NODE_LOCAL_STORAGE_INFO),
            strategy=strategy,
            pods=states.pods(),
            volume_of_claim=self._volume_of_claim,
            kubelet_root=self.handle.flags.text(KUBELET_ROOT_FLAG),
        )
        problems: dict[str, str] = {}
        for batch in wanted(inputs, self.handle.layout, self.handle.cgroups.read, problems):
            self.handle.executor.update_batch(batch)
        for directory, problem in problems.items():
            if self._problems.get(directory) != problem:
                log.warning("block I/O of %s: %s", directory or "the root cgroup", problem)
        self._problems = problems

    def _volume_of_claim(self, namespace: str, name: str) -> str:
        claim = self._claims.get(namespace, name) if self._claims is not None else None
        return claim.spec.volume_name if claim is not None else ""


def wanted(
    inputs: Inputs, layout: CgroupLayout, read: Reader, problems: dict[str, str] | None = None
) -> Iterator[list[Update]]:
    """Yield what to write, directory by directory.

    A directory with an error is left as it is, and the error is added to `problems`.
    """
    if inputs.storage is None:
        return
    disks = Disks(inputs.storage, inputs.volume_of_claim, inputs.kubelet_root.rstrip("/"))
    for target in configured.targets(inputs.strategy, inputs.pods, layout):
        try:
            yield updates(target, disks, read)
        except TargetError as error:
            if problems is not None:
                problems[target.directory] = str(error)
