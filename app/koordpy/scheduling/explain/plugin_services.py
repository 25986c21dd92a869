"""The REST endpoints of the running plugins, for callers in the same process.

What they answer is Koordinator's documented shape, so that an explanation needs no more of a plugin than any
other client of its REST API does.
"""

import re
from typing import TypeVar

import msgspec

from koordpy.api.output_model import encoded
from koordpy.api.plugin import PluginArgs
from koordpy.scheduling.interface import APIService, Plugin
from koordpy.scheduling.profiles.profiles import Profiles

T = TypeVar("T")

_PARAMETER = re.compile(r"\\\{(\w+)\\\}")


class PluginServices:
    """The endpoints of the enabled plugins; if two profiles have a plugin, those of the first profile."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    def plugin(self, name: str) -> Plugin | None:
        """Return the plugin of a name, None if no profile enables it."""
        for framework in self._profiles.frameworks.values():
            for plugin in framework.plugins:
                if plugin.name == name:
                    return plugin
        return None

    def args(self, name: str) -> PluginArgs | None:
        """Return the arguments of a plugin, None if no profile enables it."""
        plugin = self.plugin(name)
        return None if plugin is None else plugin.args

    def get(self, plugin: str, path: str, type_: type[T], **query: str) -> T:
        """Return what a plugin's endpoint answers, decoded as a type.

        Raises LookupError for a plugin that is not enabled or has no such endpoint, and for an unknown
        object.
        """
        found = self.plugin(plugin)
        if found is None:
            raise LookupError(f"plugin {plugin} is not enabled in any profile")
        if isinstance(found, APIService):
            for template, endpoint in found.endpoints().items():
                match = _pattern(template).fullmatch(path)
                if match is not None:
                    answer = endpoint(**match.groupdict(), **query)
                    return msgspec.json.decode(encoded(answer), type=type_)
        raise LookupError(f"plugin {plugin} has no endpoint {path}")


def _pattern(template: str) -> re.Pattern[str]:
    """Return the expression for the paths of a template (`gang/{namespace}/{name}`)."""
    return re.compile(_PARAMETER.sub(r"(?P<\1>[^/]+)", re.escape(template.strip("/"))))
