"""The users who may bind pods.

Every string is a comma-separated list as on koord-manager's command line (flags `--binding-admission-...`):
spaces around items and empty items are ignored.
"""

from koordpy.api import extension
from koordpy.api.plugin import PluginArgs


class BindingAdmissionArgs(PluginArgs):
    """The users who may bind pods. Without user names, or without namespaces, every user may bind all pods.

    An item of `user_name` matches all users whose name contains it. `namespaces` is `*` for all.
    """

    user_name: str = ""
    dry_run: bool = False
    namespaces: str = ""
    exclude_namespaces: str = "kube-system"
    bypass_labels: str = extension.LABEL_BINDING_ADMISSION_BYPASS
    bypass_annotations: str = ""


def items(text: str) -> frozenset[str]:
    """Return the items of a comma-separated list."""
    return frozenset(item.strip() for item in text.split(",") if item.strip())
