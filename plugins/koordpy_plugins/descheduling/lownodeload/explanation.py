"""The inputs and decisions of LowNodeLoad in one pool, recorded with the round for the debug API."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from pydantic import PrivateAttr, computed_field

from koordpy.api.output_model import OutputModel
from koordpy.descheduling.report import Report

from .classification import NodeClass
from .thresholds import Thresholds
from .totals import Amounts
from .usage import NodeUsage, unit


class NodeReport(OutputModel):
    """A measured node before evictions: milli-cpu, else units; thresholds as amounts."""

    node_class: NodeClass
    usage: dict[str, int]
    prod_usage: dict[str, int]
    low: dict[str, int]
    high: dict[str, int]
    prod_low: dict[str, int]
    prod_high: dict[str, int]


_AMOUNTS: Final = ("usage", "prod_usage", "low", "high", "prod_low", "prod_high")
"""The fields of NodeReport and NodeUsage with amounts by resource."""

_ABSENT: Final = -(1 << 63)
"""In a column: the node has no such amount."""

_MOST: Final = (1 << 63) - 1


class Figures(Mapping[str, NodeReport]):
    """The NodeReports of a round by node, kept as columns, because there are thousands in every round."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._classes: list[NodeClass] = []
        self._keys: tuple[tuple[str, ...], ...] = tuple(() for _ in _AMOUNTS)
        self._columns: list[array[int]] = []

    @classmethod
    def of(cls, nodes: Sequence[NodeUsage], classes: Sequence[NodeClass]) -> "Figures":
        """Return the figures of nodes, which have their thresholds."""
        made = cls()
        made._rows = {node.name: row for row, node in enumerate(nodes)}
        made._classes = list(classes)
        maps: list[list[Amounts]] = [[getattr(node, name) for node in nodes] for name in _AMOUNTS]
        made._keys = tuple(tuple(sorted(set().union(*of_field))) for of_field in maps)
        for keys, of_field in zip(made._keys, maps, strict=True):
            made._columns += [_column(key, of_field) for key in keys]
        return made

    def __getitem__(self, name: str) -> NodeReport:
        row, columns = self._rows[name], iter(self._columns)
        found: dict[str, dict[str, int]] = {}
        for field, keys in zip(_AMOUNTS, self._keys, strict=True):
            cells = {key: next(columns)[row] for key in keys}
            found[field] = {key: cell for key, cell in cells.items() if cell != _ABSENT}
        return NodeReport(node_class=self._classes[row], **found)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def held_bytes(self) -> int:
        """Return the memory of the columns, and of the rows by name."""
        return sum(8 * len(column) for column in self._columns) + 220 * len(self._rows)


def _column(key: str, maps: Sequence[Amounts]) -> "array[int]":
    """One resource of one field, of all nodes; beyond 64 bits the nearest number."""
    one = unit(key)
    amounts = [of.get(key) for of in maps]
    cells = [_ABSENT if amount is None else -(-amount // one) for amount in amounts]
    try:
        return array("q", cells)
    except OverflowError:
        return array("q", [cell if cell == _ABSENT else max(-_MOST, min(_MOST, cell)) for cell in cells])


class Eviction(OutputModel):
    """One chosen pod. `evicted` is false if the evictor refused; true in the plugin's dry run."""

    pod: str
    node: str
    prod: bool
    reason: str
    evicted: bool
    dry_run: bool


class NodeInPool(OutputModel):
    """What a round of a pool says about one node."""

    kind: Literal["LowNodeLoadNode"] = "LowNodeLoadNode"
    pool: str
    outcome: str
    """The outcome of the whole pool."""
    measured: bool
    """False without a NodeMetric, or with an expired one."""
    abnormal: bool
    """Whether pods were to leave: overutilized for as many consecutive rounds as anomalyCondition says."""
    figures: NodeReport | None
    evictions: int
    """Pods that left the node."""


class PoolReport(Report):
    """One pool in one round. Percentages include the added resources."""

    kind: Literal["LowNodeLoadPool"] = "LowNodeLoadPool"
    name: str
    outcome: str = ""
    use_deviation_thresholds: bool = False
    low_thresholds: dict[str, float] = {}
    high_thresholds: dict[str, float] = {}
    prod_low_thresholds: dict[str, float] = {}
    prod_high_thresholds: dict[str, float] = {}
    unmeasured: list[str] = []
    """Nodes without a NodeMetric, or with an expired one."""
    abnormal: list[str] = []
    evictions: list[Eviction] = []
    _figures: Figures = PrivateAttr(default_factory=Figures)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def nodes(self) -> dict[str, NodeReport]:
        """The measured nodes."""
        return dict(self._figures)

    def measured(self, nodes: Sequence[NodeUsage], classes: Sequence[NodeClass]) -> None:
        """Record the measured nodes with their classes."""
        self._figures = Figures.of(nodes, classes)

    def about_node(self, name: str) -> NodeInPool | None:
        """Return the node's class and figures, None if it is not in the pool."""
        known = name in self._figures
        if not known and name not in self.unmeasured:
            return None
        return NodeInPool(
            pool=self.name,
            outcome=self.outcome,
            measured=known,
            abnormal=name in self.abnormal,
            figures=self._figures[name] if known else None,
            evictions=sum(item.evicted for item in self.evictions if item.node == name),
        )

    def held_bytes(self) -> int:
        """Return the memory that the report holds, by estimate."""
        names = sum(map(len, self.unmeasured)) + 60 * (len(self.unmeasured) + len(self.abnormal))
        evictions = sum(900 + len(item.reason) for item in self.evictions)
        return 2000 + names + evictions + self._figures.held_bytes()

    def set_thresholds(self, thresholds: Thresholds, use_deviation: bool) -> None:
        """Record the percentages of the round."""
        self.use_deviation_thresholds = use_deviation
        self.low_thresholds = dict(thresholds.low)
        self.high_thresholds = dict(thresholds.high)
        self.prod_low_thresholds = dict(thresholds.prod_low)
        self.prod_high_thresholds = dict(thresholds.prod_high)
