"""One section of the ConfigMap, parsed and validated step by step.

Source: Koordinator, `pkg/webhook/cm/plugins/sloconfig` (`checker.go`, `slo_config_plugin.go` and the
checkers of each section).
"""

from collections.abc import Mapping
from typing import Any, Final

from koordpy.api.label_selector import SelectorError
from koordpy.api.meta import LabelSelector
from koordpy.api.scheme import DecodeError
from koordpy.api.slo import bandwidth, config, selection, validation
from koordpy.api.slo.bandwidth import InvalidBandwidth
from koordpy.api.slo.config import Config, NodeConfig, Section

from .refusal import (
    CONFIG_PARAM_INVALID,
    EXIST_NODE_CONFLICT,
    NODE_STRATEGIES_OVERLAP,
    PARSE_CONFIG_FAIL,
    ConfigRefused,
    refusal,
)

_LABELS: Final[dict[Section[Any], str]] = {
    config.COLOCATION: "colocation",
    config.THRESHOLD: "resourceThreshold",
    config.RESOURCE_QOS: "ResourceQOS",
    config.SYSTEM: "System",
    config.CPU_BURST: "CpuBurst",
}
"""The names of the checked sections in messages, in the order of the checks."""

SECTIONS: Final = tuple(_LABELS)


class Checker:
    """A section that could be parsed."""

    def __init__(self, section: Section[Any], data: Mapping[str, str], place: str) -> None:
        """Parse a section of a ConfigMap's data. Raises ConfigRefused.

        `place` is the namespace and name of the ConfigMap, for messages.
        """
        self.section = section
        self.config = _read(section, data, place)
        self._system = _read(config.SYSTEM, data, place) if section is config.RESOURCE_QOS else None
        for node in self.config.nodes:
            _check_selector(section.key, node)

    def check(self, *, names_are_needed: bool) -> None:
        """Check parameters, the names of node strategies, and that they do not overlap.

        Raises ConfigRefused.
        """
        problems: dict[str, str] = {}
        for path, strategy in self.section.strategies(self.config):
            problems.update(validation.problems(strategy, path))
        if problems:
            raise refusal(CONFIG_PARAM_INVALID, dict(sorted(problems.items())))
        if self._system is not None:
            try:
                bandwidth.check(self.config, self._system)
            except InvalidBandwidth as error:
                raise ConfigRefused(str(error)) from None
        if names_are_needed:
            self._check_names()
        if names := selection.overlap(self.config.nodes):
            raise refusal(NODE_STRATEGIES_OVERLAP, {"config": self.section.key, "strategies": names})

    def _check_names(self) -> None:
        seen: set[str] = set()
        for node in self.config.nodes:
            if not node.name:
                raise refusal(CONFIG_PARAM_INVALID, f"nodeConfig Name need! configType:{self.section.key}")
            if node.name in seen:
                raise refusal(
                    CONFIG_PARAM_INVALID,
                    f"nodeConfig Name confilict, configType:{self.section.key},nodeConfig Name:{node.name}! ",
                )
            seen.add(node.name)

    def check_node(self, name: str, labels: Mapping[str, str]) -> None:
        """Check that at most one strategy selects a node. Raises ConfigRefused."""
        if len(self.config.nodes) < 2:
            return
        names = selection.names_for(self.config.nodes, labels)
        if len(names) > 1:
            raise refusal(
                EXIST_NODE_CONFLICT,
                {"config": self.section.key, "strategies": names, "exampleNodes": [name]},
            )


def _read(section: Section[Any], data: Mapping[str, str], place: str) -> Config[Any]:
    text = data.get(section.key, "")
    try:
        if not text:
            raise DecodeError("unexpected end of JSON input")
        if text.strip() == "null":
            raise DecodeError("expected an object, got null")
        return section.read(text)
    except DecodeError as error:
        raise refusal(
            PARSE_CONFIG_FAIL, f"Failed to parse {_LABELS[section]} config in configmap {place}, err: {error}"
        ) from None


def _check_selector(key: str, node: NodeConfig[Any]) -> None:
    """Check that a node strategy selects nodes. Raises ConfigRefused."""
    wire = node.profile.node_selector
    if wire is None or not (wire.match_labels or wire.match_expressions):
        raise refusal(
            CONFIG_PARAM_INVALID,
            f"nodeConfigs NodeSelector must not empty error! configType: {key},nodeConfig name:{node.name}",
        )
    try:
        _ = node.selector
    except SelectorError as error:
        raise refusal(
            CONFIG_PARAM_INVALID,
            f"failed to parse node selector {_go_text(wire)},configType: {key},nodeConfig name:{node.name}, "
            f"err: {error}",
        ) from None


def _go_text(wire: LabelSelector) -> str:
    """Format a selector as Kubernetes does."""
    labels = "".join(f"{key}: {value}," for key, value in sorted(wire.match_labels.items()))
    expressions = "".join(
        f"LabelSelectorRequirement{{Key:{item.key},Operator:{item.operator},"
        f"Values:[{' '.join(item.values)}],}},"
        for item in wire.match_expressions
    )
    return (
        f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},"
        f"MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )


def readable_checkers(data: Mapping[str, str], place: str) -> list[Checker]:
    """Return the sections that can be parsed."""
    checkers = []
    for section in SECTIONS:
        try:
            checkers.append(Checker(section, data, place))
        except ConfigRefused:
            continue
    return checkers
