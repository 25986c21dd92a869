"""Write the ratios by which a node's resources are amplified to its annotation; a webhook amplifies them.

Source: Koordinator, `pkg/slo-controller/noderesource/plugins/resourceamplification`.
"""

import json
from typing import ClassVar, Final

from koordpy.api import extension
from koordpy.api.plugin import NoArgs
from koordpy.api.slo.colocation import ColocationStrategy
from koordpy.api.slo.config import RESOURCE_AMPLIFICATION
from koordpy.api.slo.node_resources import ResourceAmplificationStrategy
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
from koordpy.lib.go_number import fixed, general

UNMARSHAL_FAILED: Final = "ResourceAmplificationCfgUnmarshalFailed"
_ANNOTATION: Final = extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO
_DEFAULT: Final = ResourceAmplificationStrategy(enable=False)


class ResourceAmplification(ResourceCalculate, NodePrepare, NodeMetaCheck):
    """The plugin of amplification ratios."""

    name: ClassVar[str] = "ResourceAmplification"
    args: NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.config: ConfigSource[Strategies[ResourceAmplificationStrategy]] = ConfigSource(
            Strategies(_DEFAULT),
            reader(RESOURCE_AMPLIFICATION, _DEFAULT, UNMARSHAL_FAILED, "amplificationCfg"),
            lambda: location.found(handle.controller),
            handle.report,
            handle.enqueue_all,
        )

    def setup(self) -> None:
        """Follow the configuration."""
        location.follow(self.handle.controller, self.config)

    def calculate(
        self, strategy: ColocationStrategy, node: NodeState, inputs: Inputs
    ) -> tuple[ResourceItem, ...]:
        """Return the ratios; that of cpu includes the normalization ratio which the node has now."""
        if not self.config.is_available():
            raise PluginError("the configuration is not available")
        amplification = self.config.config.of(node.labels or {})
        ratios = dict(amplification.resource_amplification_ratio) if amplification.enable else {}
        cpu = ratios.get(extension.CPU, 0.0)
        cpu = cpu if cpu > 0 else 1.0
        try:
            cpu *= normalization_of(node) or 1.0
        except InvalidRatio as error:
            raise PluginError(str(error)) from None
        if cpu > 1:
            ratios[extension.CPU] = cpu
        for name, ratio in ratios.items():
            if ratio < 1:
                raise PluginError(f"resource {name}: got a ratio of {general(ratio)}, expected at least 1")
        if not ratios:
            return (ResourceItem(name=self.name),)
        members = (f"{json.dumps(name)}:{fixed(ratios[name], 2)}" for name in sorted(ratios))
        return (ResourceItem(name=self.name, annotations={_ANNOTATION: f"{{{','.join(members)}}}"}),)

    def prepare(self, strategy: ColocationStrategy, node: NodeState, result: NodeResource) -> None:
        """Enter the ratios, or remove them."""
        text = result.annotations.get(_ANNOTATION)
        if text is not None:
            node.annotations = {**(node.annotations or {}), _ANNOTATION: text}
        elif node.annotations is not None:
            node.annotations.pop(_ANNOTATION, None)

    def need_sync_meta(self, strategy: ColocationStrategy, old: NodeState, new: NodeState) -> str:
        """Return whether the ratios changed."""
        before = (old.annotations or {}).get(_ANNOTATION, "")
        after = (new.annotations or {}).get(_ANNOTATION, "")
        return "ratio changed" if before != after else ""
