"""The arguments of the noderesource controller."""

from koordpy.api.plugin import PluginArgs


class NodeResourceArgs(PluginArgs):
    """`plugins` is Koordinator's `--noderesource-plugins`: `NAME` enables, `-NAME` disables, `*` enables all
    that are not named.
    """

    plugins: tuple[str, ...] = ("*",)
