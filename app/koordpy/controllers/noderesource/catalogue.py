"""The noderesource plugins: found, selected, created, in their order.

Source: Koordinator, `pkg/slo-controller/noderesource/plugins_profile.go` and `noderesource_controller.go`.
"""

from collections.abc import Sequence
from typing import Final

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.lib.nearest import suggestion
from koordpy.lib.selection import is_selected

from .interface import Handle, NodeResourcePlugin

GROUP: Final = "koordpy.noderesources"

ORDER: Final = (
    "CPUNormalization",
    "ResourceAmplification",
    "MidResource",
    "BatchResource",
    "GPUDeviceResource",
    "RDMADeviceResource",
)
"""The order of Koordinator's plugins in every stage; others follow by name."""


def installed() -> Catalogue[NodeResourcePlugin]:
    """Return the installed plugins. Raises DuplicateName."""
    return Catalogue(GROUP, NodeResourcePlugin)


def build(
    catalogue: Catalogue[NodeResourcePlugin], selection: Sequence[str], handle: Handle
) -> list[NodeResourcePlugin]:
    """Create the plugins that a `--noderesource-plugins` list selects and whose gates are on, in their order.

    Raises ConfigError for an unknown name, and PluginError.
    """
    for item in selection:
        name = item.removeprefix("-")
        if name != "*" and name not in catalogue and name not in ORDER:
            raise ConfigError(
                f"noderesource plugins: got {item!r}, expected *, NAME or -NAME of a plugin; "
                f"{suggestion(name, catalogue)}"
            )
    names = sorted(catalogue, key=lambda name: (ORDER.index(name) if name in ORDER else len(ORDER), name))
    made = []
    for name in names:
        if not is_selected(name, selection):
            continue
        type_ = catalogue.load(name)
        if type_.feature is not None and not handle.gates.enabled(type_.feature):
            continue
        made.append(catalogue.make(name, type_.read_args(None, name), handle, name))
    return made
