"""Refuse labels with which two node strategies of one slo-controller-config key would select a node.

Only changes of labels are validated: a node with a conflict can still be created, and updated otherwise.
Source: Koordinator, `pkg/webhook/node/plugins/sloconfig/slo_plugin.go`.
"""

import operator
from typing import Any, ClassVar

import msgspec

from koordpy.admission.handler import UPDATE, Errored, Handle, Request, ValidatingHandler
from koordpy.admission.sloconfig.args import SLOConfigArgs
from koordpy.admission.sloconfig.checker import Checker, readable_checkers
from koordpy.admission.sloconfig.refusal import ConfigRefused
from koordpy.api.core import ConfigMap
from koordpy.lib.last_answer import LastAnswer


class NodeStrategyConflictPlugin(ValidatingHandler):
    """The strategy conflict handler of node updates."""

    name: ClassVar[str] = "SLOConfig"
    metric_name: ClassVar[str] = "SLOManagerConfigConflictForNode"
    path: ClassVar[str] = "/validate-node"
    args: SLOConfigArgs

    def __init__(self, args: SLOConfigArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._config_maps = handle.cluster.store(ConfigMap)
        self._checkers = LastAnswer(_read, same=operator.is_)

    def validate(self, request: Request) -> None:
        """Refuse an update whose new labels match more than one strategy of a configuration."""
        if request.operation != UPDATE or request.document is None:
            return
        node = request.document.raw
        labels = _labels(node)
        if labels == _labels(msgspec.json.decode(request.raw_old_object)):
            return
        config_map = self._config_maps.get(self.args.config_namespace, self.args.config_name)
        if config_map is None:
            return
        name = request.document.get(("metadata", "name"), "")
        for checker in self._checkers.of(config_map):
            try:
                checker.check_node(name, labels or {})
            except ConfigRefused as refused:
                raise Errored(400, str(refused)) from None


def _read(config_map: ConfigMap) -> list[Checker]:
    return readable_checkers(config_map.data, config_map.metadata.key)


def _labels(node: dict[str, Any]) -> dict[str, str] | None:
    """Return a node's labels; absent labels differ from an empty object."""
    labels = (node.get("metadata") or {}).get("labels")
    return None if labels is None else {key: value or "" for key, value in labels.items()}
