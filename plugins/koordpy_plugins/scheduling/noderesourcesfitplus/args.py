"""The arguments of NodeResourcesFitPlus. As in Koordinator there are no defaults and nothing is validated."""

from pydantic import Field

from koordpy.api.config_model import ConfigModel
from koordpy.api.plugin import PluginArgs
from koordpy.lib import int64


class ResourcesType(ConfigModel):
    """The strategy of one resource (MostAllocated, LeastAllocated; any other type: 0), and its weight."""

    type: str = ""
    weight: int = Field(default=0, ge=int64.MIN, le=int64.MAX)


class NodeResourcesFitPlusArgs(PluginArgs):
    """The scored resources; with none every node scores 100."""

    resources: dict[str, ResourcesType] = {}
