"""The part `agent`: the node agent of the node that the process runs on."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final

from koordpy.agent.engine import uninstalling
from koordpy.agent.engine.agent import FLAGGED_SERVICES, NodeAgent
from koordpy.agent.engine.plugins import Installed
from koordpy.agent.engine.reloading import Desired, Reloading
from koordpy.agent.engine.ticks import Ticks
from koordpy.agent.reporting import node_metric, topology_reporter
from koordpy.agent.toolkit import file_limit
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric, NodeResourceTopology, NodeSLO
from koordpy.cluster.events import Recorder
from koordpy.compose import debug_access
from koordpy.compose.part import Context, PartError, PartNeeds, Routes, WorkingPart
from koordpy.http.routes import node_agent as endpoints
from koordpy.lib import supervise
from koordpy.lib.feature_gates import FeatureSpec
from koordpy.settings import Settings

EVENT_SOURCE: Final = "koordlet-qosManager"
"""The reporting controller of the agent's events, as koordlet has it; the instance is the node."""

_FLUSH_SECONDS = 1.0


class NodeAgentPart(WorkingPart):
    """The agent of one node. It follows only the node itself, its pods and its policies.

    Without the part `debug` it has small endpoints of its own on the address of the debug API: this process
    runs on every node.
    """

    name: ClassVar[str] = "agent"
    agent: NodeAgent

    def __init__(self, process: Context) -> None:
        super().__init__(process)
        self.installed = Installed.usable(FLAGGED_SERVICES)
        self._reloading: Reloading | None = None

    @classmethod
    def needs(cls, settings: Settings) -> PartNeeds:
        """Return the node, its pods and the policies for it."""
        return PartNeeds(
            follows=(Node, NodeMetric, NodeResourceTopology, NodeSLO, Pod),
            rights=(
                *debug_access.rights(settings.debug),
                *node_metric.RIGHTS,
                *topology_reporter.RIGHTS,
                *uninstalling.rights(settings.agent.undo_with_daemon_set),
            ),
        )

    @property
    def gates(self) -> Mapping[str, FeatureSpec]:
        """The gates of all installed plugins of the agent."""
        return self.installed.gate_specs()

    @property
    def lacks_gates(self) -> bool:
        """Whether plugins cannot be used, so that their gates are not known."""
        return bool(self.installed.broken)

    def prepare(self) -> None:
        """Set up the plugins on the files of this node. Raises FlagError, AgentError, too."""
        process = self.process
        debug_access.check(process.settings.debug)
        file_limit.raised()
        if not process.settings.agent.node_name:
            raise PartError("the node agent needs agent.nodeName or the environment variable NODE_NAME")
        node_name = process.settings.agent.node_name
        self._events = Recorder(
            process.client, controller=EVENT_SOURCE, instance=node_name, clock=process.clock
        )
        self.agent = NodeAgent(
            process.settings.agent,
            self.installed,
            cluster=process.cluster,
            gates=process.gates,
            clock=process.clock,
            client=process.client,
            events=self._events,
            sleep=Ticks().sleep,
        )
        self.agent.setup()
        source = process.source
        if source is not None:
            self._reloading = self.agent.reload_from(source.file, lambda: _desired(source.load()))
        process.health.ready["agent"] = self._not_ready

    def routes(self) -> Routes | None:
        """Return the agent's endpoints; None if the debug API serves them."""
        process = self.process
        if process.named("debug") is not None:
            return None
        return Routes(
            settings=process.settings.debug,
            endpoints=endpoints.endpoints(process.health, self._configz, self.agent.endpoints),
            authenticated=process.settings.debug.authentication,
        )

    def _configz(self) -> dict[str, Any]:
        process = self.process
        return {
            "koordpy": process.settings.model_dump(mode="json", by_alias=True),
            "featureGates": dict(self.agent.handle.gates),
            "flags": {name: str(value) for name, value in self.agent.flags.values.items()},
            "lastReload": None if self._reloading is None else self._reloading.last,
        }

    async def work(self) -> None:
        """Run the agent. Raises AgentError if the node does not become known in time."""
        recording = asyncio.create_task(supervise.forever("agent-events", self._events.run))
        try:
            await self.agent.run()
        finally:
            recording.cancel()
            await asyncio.gather(recording, return_exceptions=True)
            with suppress(TimeoutError):
                async with asyncio.timeout(_FLUSH_SECONDS):
                    await self._events.flush()

    def _not_ready(self) -> str | None:
        return "; ".join(f"{name}: {reason}" for name, reason in self.agent.not_ready().items()) or None


def _desired(settings: Settings) -> Desired:
    """Return what the settings say, with everything that a running agent cannot change apart."""
    document = settings.model_dump(mode="json", by_alias=True)
    agent = document.pop("agent")
    gates = document.pop("featureGates")
    flags, args = agent.pop("flags"), agent.pop("args")
    rest = {**document, **{f"agent.{name}": value for name, value in agent.items()}}
    return Desired(flags=flags, args=args, gates=gates, rest=rest)
