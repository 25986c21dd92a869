"""Whether BE pods have CFS quotas, by the NodeSLO, and how these are scaled, by the Node."""

from koordpy.agent.toolkit import cpu_normalization
from koordpy.api.core import Node
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.api.slo.threshold import CFS_QUOTA


class BatchRule:
    """The state. Before any NodeSLO quotas are on, before any Node there is no ratio."""

    def __init__(self) -> None:
        self._quota_enabled: bool | None = None
        self._ratio: float | None = None

    @property
    def quota_enabled(self) -> bool:
        """Whether CFS quotas are set; CPU suppression by quota needs them unset."""
        return self._quota_enabled is not False

    @property
    def ratio(self) -> float:
        """The CPU normalization ratio, -1 for none."""
        return cpu_normalization.OFF if self._ratio is None else self._ratio

    def read_slo(self, slo: NodeSLOSpec) -> bool:
        """Read the suppress policy; return whether that changed something."""
        enabled = not _suppresses_by_quota(slo)
        changed = self._quota_enabled is not enabled
        self._quota_enabled = enabled
        return changed

    def read_node(self, node: Node) -> bool:
        """Read the ratio; the first one is always a change. Raises ValueError."""
        ratio = cpu_normalization.ratio_of(node)
        if self._ratio is None or abs(self._ratio - ratio) >= cpu_normalization.EPSILON:
            self._ratio = ratio
            return True
        return False


def _suppresses_by_quota(slo: NodeSLOSpec) -> bool:
    """An empty policy stands for the default, which is off, whatever `enable` says."""
    threshold = slo.resource_used_threshold_with_be
    return threshold is not None and threshold.cpu_suppress_policy == CFS_QUOTA and bool(threshold.enable)
