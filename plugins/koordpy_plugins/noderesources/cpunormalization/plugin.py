"""Write how much faster a node's CPUs are than the standard, by their model, to an annotation of the node.

Source: Koordinator, `pkg/slo-controller/noderesource/plugins/cpunormalization`.
"""

from typing import ClassVar, Final

from koordpy.api import extension
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.plugin import NoArgs
from koordpy.api.slo.colocation import ColocationStrategy
from koordpy.api.slo.config import CPU_NORMALIZATION
from koordpy.api.slo.node_resources import CPUNormalizationStrategy
from koordpy.api.slo.rendering import Strategies
from koordpy.controllers.noderesource.interface import (
    Handle,
    Inputs,
    NodeMetaCheck,
    NodePrepare,
    NodeResource,
    PluginError,
    ResourceCalculate,
    ResourceItem,
)
from koordpy.controllers.noderesource.ratio import InvalidRatio, normalization_of
from koordpy.controllers.slo import location
from koordpy.controllers.slo.config_source import ConfigSource
from koordpy.controllers.slo.node_state import NodeState
from koordpy.controllers.slo.section import reader
from koordpy.lib.go_number import fixed, general, parse_bool

from .basic_info import CPUBasicInfo, InvalidInfo, info_of, ratio_of

UNMARSHAL_FAILED: Final = "CPUNormalizationCfgUnmarshalFailed"
_ANNOTATION: Final = extension.ANNOTATION_CPU_NORMALIZATION_RATIO
_DEFAULT: Final = CPUNormalizationStrategy(enable=False)
_OFF: Final = "1.00"
_LEAST, _MOST = 1.0, 5.0
_TOLERANCE: Final = 0.01


class CPUNormalization(ResourceCalculate, NodePrepare, NodeMetaCheck):
    """The plugin of the CPU normalization ratio."""

    name: ClassVar[str] = "CPUNormalization"
    args: NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.topologies = handle.cluster.store(NodeResourceTopology, optional=True)
        self.config: ConfigSource[Strategies[CPUNormalizationStrategy]] = ConfigSource(
            Strategies(_DEFAULT),
            reader(CPU_NORMALIZATION, _DEFAULT, UNMARSHAL_FAILED, "CPUNormalizationCfg"),
            lambda: location.found(handle.controller),
            handle.report,
            handle.enqueue_all,
        )

    def setup(self) -> None:
        """Follow the configuration, and what nodes say of their CPUs."""
        location.follow(self.handle.controller, self.config)
        self.topologies.subscribe(on_add=self._topology_added, on_update=self._topology_updated)

    def calculate(
        self, strategy: ColocationStrategy, node: NodeState, inputs: Inputs
    ) -> tuple[ResourceItem, ...]:
        """Return the ratio as an annotation. Raises PluginError where it cannot be known: the node keeps what
        it has.
        """
        if not self.config.is_available():
            raise PluginError("the configuration is not available")
        normalization = self.config.config.of(node.labels or {})
        if not self._is_enabled(node, normalization):
            return (self._item(_OFF),)
        topology = self.topologies.get("", node.name)
        if topology is None:
            raise PluginError("the node has no NodeResourceTopology")
        try:
            info = info_of(topology)
        except InvalidInfo as error:
            raise PluginError(str(error)) from None
        if info is None:
            raise PluginError(f"NodeResourceTopology: no annotation {extension.ANNOTATION_CPU_BASIC_INFO}")
        ratio = ratio_of(info, normalization)
        if ratio is None:
            raise PluginError(f"no ratio for CPU {info.cpu_model!r}, and no default ratio")
        if not _LEAST <= ratio <= _MOST:
            raise PluginError(f"CPU {info.cpu_model!r}: got a ratio of {general(ratio)}, expected 1 to 5")
        return (self._item(fixed(ratio, 2)),)

    def prepare(self, strategy: ColocationStrategy, node: NodeState, result: NodeResource) -> None:
        """Enter the ratio."""
        text = result.annotations.get(_ANNOTATION)
        if text is not None:
            node.annotations = {**(node.annotations or {}), _ANNOTATION: text}

    def need_sync_meta(self, strategy: ColocationStrategy, old: NodeState, new: NodeState) -> str:
        """Return whether the ratio changed by more than a hundredth."""
        try:
            before = normalization_of(old)
        except InvalidRatio:
            return "old ratio parsed error"
        try:
            after = normalization_of(new)
        except InvalidRatio:
            return ""
        if before is None or after is None:
            return "" if before is after else f"{'old' if before is None else 'new'} ratio is nil"
        is_different = before > after + _TOLERANCE or before < after - _TOLERANCE
        return "ratio is different" if is_different else ""

    def _item(self, ratio: str) -> ResourceItem:
        return ResourceItem(name=self.name, annotations={_ANNOTATION: ratio})

    @staticmethod
    def _is_enabled(node: NodeState, normalization: CPUNormalizationStrategy) -> bool:
        """Return whether a node is normalized: its label decides, else the strategy. Raises PluginError."""
        text = (node.labels or {}).get(extension.LABEL_CPU_NORMALIZATION_ENABLED)
        if text is None:
            return bool(normalization.enable)
        enabled = parse_bool(text)
        if enabled is None:
            label = extension.LABEL_CPU_NORMALIZATION_ENABLED
            raise PluginError(f"label {label}: got {text!r}, expected true or false")
        return enabled

    def _topology_added(self, topology: NodeResourceTopology) -> None:
        if _readable(topology) is not None:
            self.handle.enqueue(topology.metadata.name)

    def _topology_updated(self, old: NodeResourceTopology, new: NodeResourceTopology) -> None:
        try:
            info = info_of(new)
        except InvalidInfo:
            return
        try:
            is_changed = info_of(old) != info
        except InvalidInfo:
            is_changed = True
        if is_changed:
            self.handle.enqueue(new.metadata.name)


def _readable(topology: NodeResourceTopology) -> CPUBasicInfo | None:
    try:
        return info_of(topology)
    except InvalidInfo:
        return None
