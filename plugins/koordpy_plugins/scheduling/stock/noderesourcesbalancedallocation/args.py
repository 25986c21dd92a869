"""The arguments of NodeResourcesBalancedAllocation."""

from collections.abc import Iterable

from pydantic import Field

from koordpy.api.config_model import ConfigModel
from koordpy.api.field_error import FieldError, duplicate, invalid
from koordpy.api.plugin import PluginArgs


class ResourceSpec(ConfigModel):
    """A scored resource. Its weight is 1, and may be omitted."""

    name: str
    weight: int = 1


class NodeResourcesBalancedAllocationArgs(PluginArgs):
    """The resources to balance; cpu and memory by default."""

    resources: tuple[ResourceSpec, ...] = Field(default=(), strict=False)

    @property
    def names(self) -> list[str]:
        """The names of the resources, after kube-scheduler's defaults."""
        return [spec.name for spec in self.resources] or ["cpu", "memory"]

    def problems(self) -> Iterable[FieldError]:
        """Validate as kube-scheduler does."""
        seen: set[str] = set()
        for index, spec in enumerate(self.resources):
            if spec.name in seen:
                yield duplicate(f"resources[{index}].name", spec.name)
            seen.add(spec.name)
            if spec.weight not in (0, 1):
                yield invalid(f"resources[{index}].weight", spec.weight, "must be 1")
