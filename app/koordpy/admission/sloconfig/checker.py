"""One configuration of the ConfigMap, read and checked step by step.

Source: Koordinator, `pkg/webhook/cm/plugins/sloconfig` (`checker.go`, `slo_config_plugin.go` and the
checkers of each configuration).
"""

from collections.abc import Mapping
from typing import Any

from koordpy.api.meta import LabelSelector
from koordpy.api.scheme import DecodeError

from . import network, reader, rules, selector
from .reader import Values
from .refusal import (
    CONFIG_PARAM_INVALID,
    EXIST_NODE_CONFLICT,
    NODE_STRATEGIES_OVERLAP,
    PARSE_CONFIG_FAIL,
    ConfigRefused,
    refusal,
)
from .shapes import KINDS, QOS_CONFIG, SYSTEM_CONFIG, ConfigKind


class Checker:
    """A configuration that could be read, with its node strategies."""

    def __init__(self, kind: ConfigKind, data: Mapping[str, str], place: str) -> None:
        """Read the configuration of a kind from a ConfigMap's data. Raises ConfigRefused.

        `place` is the namespace and name of the ConfigMap, for messages.
        """
        self.kind = kind
        self._values, selectors = _read(kind, data, place)
        self._system: tuple[Values, list[LabelSelector | None]] | None = None
        if kind is QOS_CONFIG:
            self._system = _read(SYSTEM_CONFIG, data, place)
        self.strategies = [
            selector.strategy_of(kind.key, node["name"], wire)
            for node, wire in zip(self._values["nodes"], selectors, strict=True)
        ]

    def check(self, *, names_are_needed: bool) -> None:
        """Check parameters, the names of node strategies, and that they do not overlap.

        Raises ConfigRefused.
        """
        if problems := rules.problems(self.kind, self._values):
            raise refusal(CONFIG_PARAM_INVALID, problems)
        if self._system is not None:
            network.check(self._values, self._system[0], self.strategies, self._system[1])
        if names_are_needed:
            self._check_names()
        if names := selector.overlap(self.strategies):
            raise refusal(NODE_STRATEGIES_OVERLAP, {"config": self.kind.key, "strategies": names})

    def _check_names(self) -> None:
        seen: set[str] = set()
        for strategy in self.strategies:
            if not strategy.name:
                raise refusal(CONFIG_PARAM_INVALID, f"nodeConfig Name need! configType:{self.kind.key}")
            if strategy.name in seen:
                raise refusal(
                    CONFIG_PARAM_INVALID,
                    f"nodeConfig Name confilict, configType:{self.kind.key},"
                    f"nodeConfig Name:{strategy.name}! ",
                )
            seen.add(strategy.name)

    def check_node(self, name: str, labels: Mapping[str, str]) -> None:
        """Check that at most one strategy selects a node. Raises ConfigRefused."""
        if len(self.strategies) < 2:
            return
        names = selector.matching(self.strategies, labels)
        if len(names) > 1:
            raise refusal(
                EXIST_NODE_CONFLICT, {"config": self.kind.key, "strategies": names, "exampleNodes": [name]}
            )


def _read(kind: ConfigKind, data: Mapping[str, str], place: str) -> tuple[Values, list[Any]]:
    """Return the fields of a configuration and the selectors of its node strategies. Raises ConfigRefused."""
    text = data.get(kind.key, "")
    try:
        if not text:
            raise DecodeError("unexpected end of JSON input")
        values = reader.parse(kind, text)
        return values, [selector.decode_selector(node["nodeSelector"]) for node in values["nodes"]]
    except DecodeError as error:
        raise refusal(
            PARSE_CONFIG_FAIL, f"Failed to parse {kind.label} config in configmap {place}, err: {error}"
        ) from None


def readable_checkers(data: Mapping[str, str], place: str) -> list[Checker]:
    """Return the configurations that can be read."""
    checkers = []
    for kind in KINDS:
        try:
            checkers.append(Checker(kind, data, place))
        except ConfigRefused:
            continue
    return checkers
