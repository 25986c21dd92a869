"""The CPU normalization ratio of a node, from the model of its CPUs."""

import json
from typing import Any

import pytest

from koordpy.api import extension
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.controllers.noderesource.interface import PluginError
from koordpy_plugins.noderesources.cpunormalization.plugin import CPUNormalization

from .one_node import OneNode, node

ANNOTATION = extension.ANNOTATION_CPU_NORMALIZATION_RATIO
ENABLED = extension.LABEL_CPU_NORMALIZATION_ENABLED
MODEL = {
    "baseRatio": 1.1,
    "hyperThreadEnabledRatio": 1.2,
    "turboEnabledRatio": 1.3,
    "hyperThreadTurboEnabledRatio": 1.4,
}


def config(**changes: Any) -> dict[str, str]:
    return {"cpu-normalization-config": json.dumps({"enable": True, "ratioModel": {"X": MODEL}, **changes})}


def stage(data: dict[str, str] | None = None, **info: Any) -> OneNode[CPUNormalization]:
    """The plugin, with what the agent says of a node's CPUs."""
    made: OneNode[CPUNormalization] = OneNode(CPUNormalization, config() if data is None else data)
    if info:
        report(made, **info)
    return made


def report(made: OneNode[CPUNormalization], **info: Any) -> None:
    annotations = {extension.ANNOTATION_CPU_BASIC_INFO: json.dumps(info)}
    made.put(NodeResourceTopology, metadata={"annotations": annotations})


def ratio(made: OneNode[CPUNormalization], **labels: str) -> str:
    return made.calculate(node(labels)).annotations[ANNOTATION]


@pytest.mark.parametrize(
    ("hyper_threads", "turbo", "expected"),
    [(False, False, "1.10"), (True, False, "1.20"), (False, True, "1.30"), (True, True, "1.40")],
)
def test_the_ratio_is_of_the_model_in_its_mode(*, hyper_threads: bool, turbo: bool, expected: str) -> None:
    made = stage(cpuModel="X", hyperThreadEnabled=hyper_threads, turboEnabled=turbo)
    assert ratio(made) == expected


def test_another_model_or_mode_has_the_default_ratio() -> None:
    assert ratio(stage(config(defaultRatio=1.25), cpuModel="Y")) == "1.25"
    only_base = config(defaultRatio=1.25, ratioModel={"X": {"baseRatio": 2.0}})
    assert ratio(stage(only_base, cpuModel="X", turboEnabled=True)) == "1.25"


@pytest.mark.parametrize(
    ("data", "info", "problem"),
    [
        (config(), {"cpuModel": "Y"}, "no ratio for CPU 'Y'"),
        (config(defaultRatio=0.99), {"cpuModel": "Y"}, "got a ratio of 0.99"),
        (config(defaultRatio=5.01), {"cpuModel": "Y"}, "got a ratio of 5.01"),
        (config(), {}, "no NodeResourceTopology"),
    ],
)
def test_a_ratio_that_cannot_be_known_is_an_error(
    data: dict[str, str], info: dict[str, Any], problem: str
) -> None:
    with pytest.raises(PluginError, match=problem):
        ratio(stage(data, **info))


def test_a_topology_without_or_with_wrong_information_is_an_error() -> None:
    made = stage()
    made.put(NodeResourceTopology, metadata={})
    with pytest.raises(PluginError, match="no annotation"):
        ratio(made)
    made.put(NodeResourceTopology, metadata={"annotations": {extension.ANNOTATION_CPU_BASIC_INFO: "{"}})
    with pytest.raises(PluginError, match="cpu-basic-info"):
        ratio(made)


def test_the_label_of_a_node_wins_over_the_strategy() -> None:
    made = stage(cpuModel="X")
    assert ratio(made, **{ENABLED: "false"}) == "1.00"
    assert ratio(made, **{ENABLED: "T"}) == "1.10"
    off = stage(config(enable=False), cpuModel="X")
    assert ratio(off) == "1.00"
    assert ratio(off, **{ENABLED: "true"}) == "1.10"
    with pytest.raises(PluginError, match="got 'yes', expected true or false"):
        ratio(made, **{ENABLED: "yes"})


def test_the_first_node_strategy_that_selects_a_node_counts() -> None:
    nodes = [
        {"name": "a", "nodeSelector": {"matchLabels": {"pool": "a"}}, "defaultRatio": 2.0},
        {"name": "all", "nodeSelector": {}, "defaultRatio": 3.0},
    ]
    made = stage(config(nodeConfigs=nodes), cpuModel="Y")
    assert (ratio(made, pool="a"), ratio(made)) == ("2.00", "3.00")


def test_a_section_that_cannot_be_read_stays_as_it_was_with_an_event() -> None:
    made = stage(cpuModel="X")
    made.configure({"cpu-normalization-config": "{"})
    [(reason, message)] = made.events
    assert reason == "CPUNormalizationCfgUnmarshalFailed"
    assert message.startswith("failed to unmarshal CPUNormalizationCfg, err: ")
    assert ratio(made) == "1.10"
    made.configure({})
    assert ratio(made) == "1.00"


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (None, None, ""),
        (None, "1.00", "old ratio is nil"),
        ("1.00", None, "new ratio is nil"),
        ("1.00", "1.01", ""),
        ("1.00", "1.02", "ratio is different"),
        ("1.20", "1.10", "ratio is different"),
        ("x", "1.10", "old ratio parsed error"),
        ("0", "1.10", "old ratio parsed error"),
        ("1.10", "-1", ""),
    ],
)
def test_metadata_is_written_where_the_ratio_differs_by_more_than_a_hundredth(
    before: str | None, after: str | None, reason: str
) -> None:
    made = stage()
    old, new = (node(annotations={} if text is None else {ANNOTATION: text}) for text in (before, after))
    assert made.plugin.need_sync_meta(made.strategy, old, new) == reason


def test_a_changed_model_has_the_node_reconciled_and_another_annotation_does_not() -> None:
    made = stage(cpuModel="X")
    assert made.enqueued == ["n"]
    text = json.dumps({"cpuModel": "X"})
    annotations = {extension.ANNOTATION_CPU_BASIC_INFO: text, "other": "x"}
    made.put(NodeResourceTopology, metadata={"annotations": annotations})
    assert made.enqueued == ["n"]
    report(made, cpuModel="X", turboEnabled=True)
    assert made.enqueued == ["n", "n"]
    made.configure(config(enable=False))
    assert made.enqueued == ["n", "n", "*"]
