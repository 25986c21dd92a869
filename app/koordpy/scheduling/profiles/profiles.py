"""The profiles that run in a process."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from koordpy.scheduling.framework.framework import Framework

from ..interface import PreEnqueue
from .in_tree import IN_TREE


@dataclass(slots=True)
class Profiles:
    """The profiles of a process by scheduler name, and which names of the configuration do not run."""

    frameworks: dict[str, Framework] = field(default_factory=dict)
    wholes: dict[str, Framework] = field(default_factory=dict)
    """The same profiles with kube-scheduler's in-tree plugins; only beside kube-scheduler."""
    missing: dict[str, list[str]] = field(default_factory=dict)
    """Plugins that were left out because they are not installed, with the paths that name them."""
    left_to_kube_scheduler: list[str] = field(default_factory=list)
    """Names that kube-scheduler runs itself."""

    def of(self, scheduler_name: str) -> Framework | None:
        """Return the profile that serves pods with this `spec.schedulerName` (empty: default-scheduler)."""
        return self.frameworks.get(scheduler_name or "default-scheduler")

    def whole_of(self, scheduler_name: str) -> Framework | None:
        """Return the profile as it would run if koordpy were the scheduler itself.

        Its plugins are the instances of `of`, with the same state, and kube-scheduler's in-tree plugins.
        """
        name = scheduler_name or "default-scheduler"
        return self.wholes.get(name) or self.frameworks.get(name)


def gated_plugins(framework: Framework) -> Mapping[str, PreEnqueue]:
    """Return the PreEnqueue plugins of a profile that kube-scheduler does not run itself."""
    return {name: each for name, each in framework.pre_enqueue_plugins.items() if name not in IN_TREE}
