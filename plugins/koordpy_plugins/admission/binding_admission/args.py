"""Who may bind which pods.

Every text is a comma list as on koord-manager's command line (flags `--binding-admission-...`): spaces around
items and empty items do not count.
"""

from koordpy.api import extension
from koordpy.api.plugin import PluginArgs


class BindingAdmissionArgs(PluginArgs):
    """Who may bind which pods. Without user names, or without namespaces, everybody may bind everything.

    An item of `user_name` stands for all users whose name contains it. `namespaces` is `*` for all.
    """

    user_name: str = ""
    dry_run: bool = False
    namespaces: str = ""
    exclude_namespaces: str = "kube-system"
    bypass_labels: str = extension.LABEL_BINDING_ADMISSION_BYPASS
    bypass_annotations: str = ""


def items(text: str) -> frozenset[str]:
    """Return the items of a comma list."""
    return frozenset(item.strip() for item in text.split(",") if item.strip())
