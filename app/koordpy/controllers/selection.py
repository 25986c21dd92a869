"""Which controllers run: Koordinator's `--controllers` list.

Source: Koordinator, `cmd/koord-manager/options/options.go`.
"""

from collections.abc import Collection, Sequence
from typing import Final

from koordpy.api.config_model import ConfigError
from koordpy.lib.nearest import suggestion
from koordpy.lib.selection import is_selected as is_selected

KOORDINATORS: Final = ("colocationprofile", "nodemetric", "noderesource", "nodeslo", "quotaprofile")
"""koord-manager's controllers; the flag may name any of them, whether installed or not."""


def check(selection: Sequence[str], installed: Collection[str]) -> list[str]:
    """Return Koordinator's controllers that a list names and that are not installed.

    Raises ConfigError for a name that neither koordpy nor Koordinator has.
    """
    missing = []
    for item in selection:
        name = item.removeprefix("-")
        if item == "*" or name in installed:
            continue
        if name not in KOORDINATORS:
            hint = suggestion(name, {*installed, *KOORDINATORS})
            raise ConfigError(f"controllers: got {item!r}, expected *, NAME or -NAME of a controller; {hint}")
        if item == name:
            missing.append(name)
    return missing
