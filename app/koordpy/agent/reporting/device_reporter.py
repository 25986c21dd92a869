"""The service that writes the Device of the node (gate Accelerators).

Source: Koordinator, `pkg/koordlet/statesinformer/impl/states_device_linux.go`.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from koordpy.agent.interface.facts import (
    GPU_DEVICES,
    GPU_DRIVER,
    RDMA_DEVICES,
    XPU_DEVICES,
    GPUDevice,
    GPUDriver,
    RDMADevice,
    XPUDevice,
)
from koordpy.agent.interface.flags import FlagSet
from koordpy.agent.interface.gates import ACCELERATORS
from koordpy.agent.interface.gates import RDMA_DEVICES as RDMA_GATE
from koordpy.agent.interface.handle import Handle
from koordpy.agent.interface.reports import TOPOLOGY_INTERVAL
from koordpy.api.core import Node
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound
from koordpy.cluster.retry import retried
from koordpy.lib.feature_gates import FeatureGates

if TYPE_CHECKING:
    from koordpy.agent.reporting.device_spec import DeviceSpec

log = logging.getLogger(__name__)

ONLY_DESCRIBED_FLAG: Final = "xpu-enforce-collect-from-device-infos"
RECHECK_SECONDS: Final = 60.0
"""How often the object is read while the devices do not change, in case that somebody else changed it."""

FAILED_SECONDS: Final = 30.0
"""How long to wait after a failure: a missing definition or right does not come by itself."""

Facts = tuple[tuple[GPUDevice, ...], GPUDriver, tuple[XPUDevice, ...], tuple[RDMADevice, ...]]


class DeviceReporter:
    """Reports the devices that collectors found, once all that are enabled have looked for theirs."""

    name: Final = "device"

    def __init__(self, handle: Handle, gates: Callable[[], FeatureGates]) -> None:
        """`gates` returns those in force, which may change."""
        self._handle, self._gates = handle, gates
        self._written: tuple[DeviceSpec, float] | None = None
        """What was last found or written, and when."""
        self._failure = ""
        self._facts: Facts | None = None
        self._spec: DeviceSpec | None = None
        """What follows from the facts."""

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare where accelerators are taken from."""
        flags.declare(
            ONLY_DESCRIBED_FLAG, False, "report no GPUs but those that files describe (xpu-device-infos-dir)"
        )

    async def run(self) -> None:
        """Report until cancelled; an interval of 0 or less switches it off."""
        interval = self._handle.flags.duration(TOPOLOGY_INTERVAL).total_seconds()
        if interval <= 0:
            await asyncio.Event().wait()
        while True:
            if self._gates().enabled(ACCELERATORS):
                try:
                    await self.sync()
                    self._failure = ""
                except (ApiError, ConnectionFailed) as error:
                    if self._failure != str(error):
                        log.warning("the Device of the node is not reported: %s", error)
                    self._failure = str(error)
            await self._handle.sleep(max(interval, FAILED_SECONDS) if self._failure else interval)

    def not_ready(self) -> str | None:
        """Return None: a missing CRD or right to report must not stop the agent."""
        return None

    async def sync(self) -> None:
        """Write the Device if it differs. Raises ApiError, ConnectionFailed."""
        from koordpy.agent.reporting.device_spec import spec_of

        handle, metrics = self._handle, self._handle.metrics
        node = handle.states.node()
        gpus, xpus, cards = metrics.fact(GPU_DEVICES), metrics.fact(XPU_DEVICES), metrics.fact(RDMA_DEVICES)
        has_cards = self._gates().enabled(RDMA_GATE)
        if node is None or gpus is None or xpus is None or (has_cards and cards is None):
            return
        facts = (gpus, metrics.fact(GPU_DRIVER) or GPUDriver(), xpus, cards or () if has_cards else ())
        if facts != self._facts:
            self._facts = facts
            self._spec = spec_of(*facts, only_described=handle.flags.boolean(ONLY_DESCRIBED_FLAG))
        spec = self._spec
        assert spec is not None
        if self._written is not None:
            before, when = self._written
            if before == spec and handle.clock.monotonic() - when < RECHECK_SECONDS:
                return
        if handle.client is not None:
            await retried(lambda: self._write(node, spec), rng=handle.rng, sleep=handle.sleep)
            self._written = (spec, handle.clock.monotonic())

    async def _write(self, node: Node, spec: "DeviceSpec") -> None:
        from koordpy.agent.reporting import device_object
        from koordpy.api.device import Device
        from koordpy.api.meta import format_time
        from koordpy.api.scheme import resource_of

        client = self._handle.client
        assert client is not None
        name, now, resource = node.metadata.name, format_time(self._handle.clock.now()), resource_of(Device)
        try:
            found: dict[str, Any] = await client.get_raw(resource, "", name)
        except NotFound:
            await client.create_raw(resource, "", device_object.created(node, spec, now))
            return
        changed = device_object.updated(found, spec, now)
        if changed is not None:
            await client.update_raw(resource, "", name, changed)
