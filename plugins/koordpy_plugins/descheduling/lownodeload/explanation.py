"""The inputs and decisions of LowNodeLoad in one pool, recorded with the round for the debug API."""

from typing import Literal

from koordpy.api.output_model import OutputModel

from .classification import NodeClass
from .thresholds import Thresholds
from .usage import Amounts, NodeUsage, counted


class NodeReport(OutputModel):
    """A measured node before evictions: milli-cpu, else units; thresholds as amounts."""

    node_class: NodeClass
    usage: dict[str, int]
    prod_usage: dict[str, int]
    low: dict[str, int]
    high: dict[str, int]
    prod_low: dict[str, int]
    prod_high: dict[str, int]

    @classmethod
    def of(cls, node: NodeUsage, node_class: NodeClass) -> "NodeReport":
        """Return the description of a node."""
        return cls(
            node_class=node_class,
            usage=_counted(node.usage),
            prod_usage=_counted(node.prod_usage),
            low=_counted(node.low),
            high=_counted(node.high),
            prod_low=_counted(node.prod_low),
            prod_high=_counted(node.prod_high),
        )


class Eviction(OutputModel):
    """One chosen pod. `evicted` is false if the evictor refused; true in the plugin's dry run."""

    pod: str
    node: str
    prod: bool
    reason: str
    evicted: bool
    dry_run: bool


class PoolReport(OutputModel):
    """One pool in one round. Percentages include the added resources."""

    kind: Literal["LowNodeLoadPool"] = "LowNodeLoadPool"
    name: str
    outcome: str = ""
    use_deviation_thresholds: bool = False
    low_thresholds: dict[str, float] = {}
    high_thresholds: dict[str, float] = {}
    prod_low_thresholds: dict[str, float] = {}
    prod_high_thresholds: dict[str, float] = {}
    nodes: dict[str, NodeReport] = {}
    unmeasured: list[str] = []
    """Nodes without a NodeMetric, or with an expired one."""
    abnormal: list[str] = []
    evictions: list[Eviction] = []

    def set_thresholds(self, thresholds: Thresholds, use_deviation: bool) -> None:
        """Record the percentages of the round."""
        self.use_deviation_thresholds = use_deviation
        self.low_thresholds = dict(thresholds.low)
        self.high_thresholds = dict(thresholds.high)
        self.prod_low_thresholds = dict(thresholds.prod_low)
        self.prod_high_thresholds = dict(thresholds.prod_high)


def _counted(amounts: Amounts) -> dict[str, int]:
    return {name: counted(name, amount) for name, amount in sorted(amounts.items())}
