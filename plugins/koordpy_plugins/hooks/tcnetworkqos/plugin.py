"""TCNetworkQoS: divide the node's outgoing bandwidth among QoS classes, with the kernel's traffic control.

The NodeSLO and the pods make a plan (`plan`), which is brought about on the interface of the default route
(`traffic`, `netfilter`) and looked at again every ten seconds, because others configure interfaces too. All
of it is removed when another policy holds, when it is undone, and when the agent ends.

Source: Koordinator, `pkg/koordlet/runtimehooks/hooks/tc`.
"""

import asyncio
import importlib.util
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from koordpy.agent.interface import CallbackTarget, Handle
from koordpy.agent.interface.hook import OFF, Hook, Level, PodRequest, Reconciler, Response, Rule
from koordpy.agent.interface.states import StateType
from koordpy.agent.toolkit import networks
from koordpy.api.needs import Needs, Privilege, PrivilegeNeed
from koordpy.api.plugin import PluginArgs
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.lib.feature_gates import FeatureSpec

from . import bandwidth
from .bandwidth import NodeBandwidth
from .plan import Plan, plan

log = logging.getLogger(__name__)

CLASS_ID: Final = "net_cls.classid"
CHECK_SECONDS: Final = 10.0
_PAUSE_SECONDS: Final = 0.5
_STOP_SECONDS: Final = 5.0


class TCNetworkQoS(Hook):
    """The hook."""

    name: ClassVar[str] = "TCNetworkQoS"
    feature: ClassVar[str | None] = "TCNetworkQoS"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {"TCNetworkQoS": OFF}
    needs: ClassVar[Needs] = Needs(
        elsewhere=(
            "a kernel with HTB (sch_htb) and nf_tables",
            "NodeSLOs with totalNetworkBandwidth, and the netQOSPolicy tc or none",
            "the package pyroute2 (koordpy[network]), which the image has",
        ),
        privileges=(
            PrivilegeNeed(
                privilege=Privilege.HOST_NETWORK,
                purpose="the node's interface",
                without="the hook is off, and the log says so",
            ),
            PrivilegeNeed(
                privilege=Privilege.NET_ADMIN,
                purpose="classes of traffic and the classification of packets",
                without="no traffic is shaped, and the log says so",
            ),
        ),
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._node: NodeBandwidth | None = None
        self._is_read = False
        self._plan: Plan | None = None
        self._was_enabled = False
        self._due = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None
        self._lock = threading.Lock()
        self._problem = ""

    def refusal(self) -> str | None:
        """Return what is missing on this node."""
        if importlib.util.find_spec("pyroute2") is None:
            return "the package pyroute2 is not installed; install koordpy[network]"
        if not networks.is_of_node(self.handle.proc_root):
            return "the agent has a network of its own; it needs the node's (hostNetwork: true)"
        return None

    def rules(self) -> Sequence[Rule]:
        """The bandwidths of the NodeSLO, and all pods."""
        return (
            Rule(f"{self.name} (nodeSLO)", StateType.NODE_SLO_SPEC, self.read_slo, self.update),
            Rule(f"{self.name} (allPods)", StateType.ALL_PODS, lambda _: self._node is not None, self.update),
        )

    def reconcilers(self) -> Sequence[Reconciler]:
        """The class of pods' processes."""
        return (Reconciler(Level.POD, CLASS_ID, self.set_class_id),)

    def read_slo(self, slo: NodeSLOSpec) -> bool:
        """Read the policy and the bandwidths; return whether they changed. Raises ValueError."""
        node = bandwidth.of_node(slo) if bandwidth.is_enabled(slo) else None
        if node is not None and node.total == 0:
            node = None
        changed = node != self._node or not self._is_read
        if changed and node is None and bandwidth.is_enabled(slo):
            log.info("%s: no totalNetworkBandwidth in the NodeSLO, no traffic is shaped", self.name)
        self._node, self._is_read = node, True
        return changed

    def update(self, target: CallbackTarget) -> None:
        """Plan anew, and let that be brought about."""
        self._plan = None if self._node is None else plan(self._node, target.pods)
        self._was_enabled = self._was_enabled or self._plan is not None
        self._due.set()
        if self._keeping is None:  # also without a plan: an agent that was killed may have left something
            self._keeping = asyncio.get_running_loop().create_task(self._keep())

    def set_class_id(self, request: PodRequest, response: Response) -> None:
        """Set the class of a pod's processes, for those that share the node's address."""
        if self._plan is not None:
            handle = self._plan.class_ids.get(request.uid)
            if handle is not None:
                response.set(
                    CLASS_ID, handle, f"class {handle >> 16:x}:{handle & 0xFFFF:x} of the node's traffic"
                )
        elif self._was_enabled:
            response.set(CLASS_ID, 0, "no classes")

    def stop(self) -> None:
        """Remove everything."""
        if self._keeping is None:
            return
        self._keeping.cancel()
        self._keeping, self._plan = None, None
        removing = threading.Thread(target=self._bring_about, args=(None,), daemon=True)
        removing.start()
        removing.join(_STOP_SECONDS)
        if removing.is_alive():
            log.error("%s: the classes of traffic could not be removed within %g s", self.name, _STOP_SECONDS)

    # --- the node's traffic ----------------------------------------------------------------------

    async def _keep(self) -> None:
        """Bring the plan about whenever it changes, and see to it that it stays."""
        clock = asyncio.get_running_loop()
        done: Plan | None = None
        checked, succeeded = float("-inf"), False
        while True:
            wanted = None if self.handle.executor.paused() else self._plan
            is_due = clock.time() - checked >= CHECK_SECONDS and (wanted is not None or not succeeded)
            if wanted != done or is_due:
                succeeded = await asyncio.to_thread(self._bring_about, wanted)
                done, checked = wanted, clock.time()
            try:
                async with asyncio.timeout(_PAUSE_SECONDS):
                    await self._due.wait()
            except TimeoutError:
                continue
            self._due.clear()

    def _bring_about(self, wanted: Plan | None) -> bool:
        """Bring a plan about, or remove everything; return whether that succeeded.

        Called in a thread, as the kernel may let us wait.
        """
        from . import traffic  # pyroute2 is loaded only where the gate is on

        with self._lock, asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            try:
                changed = runner.run(traffic.remove() if wanted is None else traffic.apply(wanted))
            except Exception as error:
                self._report(traffic.explain(error))
                return False
        if changed and wanted is None:
            log.info("%s: removed the classes of traffic", self.name)
        elif changed and wanted is not None:
            log.info(
                "%s: %d classes of traffic, %d addresses of pods",
                self.name,
                len(wanted.classes),
                len(wanted.addresses),
            )
        self._report("")
        return True

    def _report(self, problem: str) -> None:
        """Log a problem once, until it is another one or gone."""
        if problem and problem != self._problem:
            log.error("%s: the node's traffic is not shaped: %s", self.name, problem)
        self._problem = problem
