"""The arguments of ScarceResourceAvoidance. As in Koordinator there are no defaults, nothing is validated."""

from pydantic import Field

from koordpy.api.plugin import PluginArgs


class ScarceResourceAvoidanceArgs(PluginArgs):
    """The names of the scarce resources."""

    resources: tuple[str, ...] = Field(default=(), strict=False)
