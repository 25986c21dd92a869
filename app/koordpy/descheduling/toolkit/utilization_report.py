"""The nodes of a run by class, with the percentages of what is requested: a report of balancing plugins."""

from array import array
from collections.abc import Iterable, Mapping
from typing import Literal

from pydantic import PrivateAttr, computed_field

from koordpy.api.output_model import OutputModel
from koordpy.descheduling.report import Report

from .node_utilization import NodeUtilization


class NodeFigures(OutputModel):
    """A node's class, such as `underutilized`, and what is requested of its resources, in percent."""

    node_class: str
    percentages: dict[str, float]


class ReportedNode(OutputModel):
    """What a run says about one node; `outcome` is that of the whole run."""

    kind: Literal["NodeUtilizationNode"] = "NodeUtilizationNode"
    outcome: str
    figures: NodeFigures


class UtilizationReport(Report):
    """The nodes of one run. The percentages are kept as a column, because there are thousands of nodes."""

    kind: Literal["NodeUtilization"] = "NodeUtilization"
    outcome: str
    thresholds: dict[str, float]
    target_thresholds: dict[str, float] = {}
    _rows: dict[str, tuple[str, int, tuple[str, ...]]] = PrivateAttr(default_factory=dict)
    """By node: its class, the first of its percentages, and the resources."""
    _percentages: "array[float]" = PrivateAttr(default_factory=lambda: array("d"))

    @classmethod
    def of(
        cls,
        outcome: str,
        classes: Mapping[str, Iterable[NodeUtilization]],
        thresholds: Mapping[str, float],
        target_thresholds: Mapping[str, float] | None = None,
    ) -> "UtilizationReport":
        """Return the report of nodes by class."""
        made = cls(
            outcome=outcome, thresholds=dict(thresholds), target_thresholds=dict(target_thresholds or {})
        )
        shared: dict[tuple[str, ...], tuple[str, ...]] = {}
        for node_class, nodes in classes.items():
            for node in nodes:
                percentages = node.percentages
                names = tuple(percentages)
                row = (node_class, len(made._percentages), shared.setdefault(names, names))
                made._rows[node.node.metadata.name] = row
                made._percentages.extend(percentages.values())
        return made

    @computed_field  # type: ignore[prop-decorator]
    @property
    def nodes(self) -> dict[str, NodeFigures]:
        """All nodes by name."""
        return {name: self._figures(name) for name in sorted(self._rows)}

    def _figures(self, name: str) -> NodeFigures:
        node_class, start, names = self._rows[name]
        values = self._percentages[start : start + len(names)]
        rounded = {each: round(value, 2) for each, value in zip(names, values, strict=True)}
        return NodeFigures(node_class=node_class, percentages=rounded)

    def about_node(self, name: str) -> ReportedNode | None:
        """Return the node's class and figures, None if the run did not measure it."""
        if name not in self._rows:
            return None
        return ReportedNode(outcome=self.outcome, figures=self._figures(name))

    def held_bytes(self) -> int:
        """Return the memory that the report holds, by estimate."""
        return 2000 + 8 * len(self._percentages) + 250 * len(self._rows)
