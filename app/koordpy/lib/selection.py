"""Lists that enable and disable items by name, as in Koordinator's flags: `*,-this`."""

from collections.abc import Sequence


def is_selected(name: str, selection: Sequence[str]) -> bool:
    """Return whether a list selects a name: the first `name` or `-name` decides, else a `*` anywhere."""
    for item in selection:
        if item == name:
            return True
        if item == f"-{name}":
            return False
    return "*" in selection
