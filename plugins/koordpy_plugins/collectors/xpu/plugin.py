"""xpu: accelerators that their vendors' tools describe in files, as a fact for the Device of the node.

Gate Accelerators. Source: Koordinator, `pkg/koordlet/metricsadvisor/devices/xpu`.
"""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

from koordpy.agent.interface import CollectError, Collector, FlagSet, Handle
from koordpy.agent.interface.facts import XPU_DEVICES
from koordpy.agent.interface.gates import ACCELERATORS
from koordpy.agent.interface.reports import DEVICE_RIGHTS, TOPOLOGY_INTERVAL, TOPOLOGY_INTERVAL_HELP
from koordpy.api.needs import Needs
from koordpy.api.plugin import PluginArgs

if TYPE_CHECKING:
    from .device_infos import DeviceInfos

FOLDER_FLAG: Final = "xpu-device-infos-dir"


class XPU(Collector):
    """The collector of described accelerators."""

    name: ClassVar[str] = "xpu"
    feature: ClassVar[str | None] = ACCELERATORS
    interval_flag: ClassVar[str] = TOPOLOGY_INTERVAL
    needs: ClassVar[Needs] = Needs(
        rights=DEVICE_RIGHTS, elsewhere=(f"the folder of --{FOLDER_FLAG}, which a vendor's tool fills",)
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._infos: DeviceInfos | None = None

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the folder, and the interval of the reports that the devices are for."""
        flags.declare(
            FOLDER_FLAG, "/var/run/koordlet/xpu-device-infos/", "folder with files that describe accelerators"
        )
        flags.declare(TOPOLOGY_INTERVAL, timedelta(seconds=3), TOPOLOGY_INTERVAL_HELP)

    def idle_reason(self) -> str | None:
        """Devices are for reports."""
        if self.handle.flags.duration(TOPOLOGY_INTERVAL) <= timedelta():
            return f"--{TOPOLOGY_INTERVAL} is 0, so no devices are reported"
        return None

    def collect(self) -> None:
        """Read the files that have changed. Raises CollectError."""
        from .device_infos import DeviceInfos

        if self._infos is None:
            self._infos = DeviceInfos(Path(self.handle.flags.text(FOLDER_FLAG)))
        try:
            found = self._infos.read()
        except OSError as error:
            raise CollectError(f"descriptions of accelerators: {error}") from None
        self.handle.metrics.set_fact(XPU_DEVICES, found)
