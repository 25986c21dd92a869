"""The ratios by which a node's resources are amplified."""

import json
from typing import Any

import pytest

from koordpy.api import extension
from koordpy.controllers.noderesource.interface import PluginError
from koordpy_plugins.noderesources.resourceamplification.plugin import ResourceAmplification

from .one_node import OneNode, node

ANNOTATION = extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO
NORMALIZATION = extension.ANNOTATION_CPU_NORMALIZATION_RATIO


def stage(ratios: dict[str, float], *, enable: bool = True) -> OneNode[ResourceAmplification]:
    section = {"enable": enable, "resourceAmplificationRatio": ratios}
    return OneNode(ResourceAmplification, {"resource-amplification-config": json.dumps(section)})


def written(made: OneNode[ResourceAmplification], **annotations: str) -> str | None:
    found = made.prepared(node(annotations=annotations))
    return (found.annotations or {}).get(ANNOTATION)


@pytest.mark.parametrize(
    ("ratios", "normalization", "expected"),
    [
        ({}, None, None),
        ({"memory": 1.5}, None, '{"memory":1.50}'),
        ({"memory": 1.5, "cpu": 1.2}, None, '{"cpu":1.20,"memory":1.50}'),
        ({"cpu": 1.2}, "1.50", '{"cpu":1.80}'),
        ({"memory": 1.5}, "1.20", '{"cpu":1.20,"memory":1.50}'),
        ({"cpu": 1.0}, "1.00", '{"cpu":1.00}'),
        ({"memory": 1.005}, None, '{"memory":1.00}'),
    ],
)
def test_the_ratio_of_cpu_includes_the_normalization_ratio_that_the_node_has(
    ratios: dict[str, float], normalization: str | None, expected: str | None
) -> None:
    annotations = {} if normalization is None else {NORMALIZATION: normalization}
    assert written(stage(ratios), **annotations) == expected


def test_normalization_alone_amplifies_where_the_strategy_is_off() -> None:
    assert written(stage({"memory": 1.5}, enable=False), **{NORMALIZATION: "1.20"}) == '{"cpu":1.20}'


def test_ratios_that_are_off_are_removed() -> None:
    assert written(stage({"memory": 1.5}, enable=False), **{ANNOTATION: '{"memory":1.50}'}) is None


@pytest.mark.parametrize(
    ("ratios", "normalization", "problem"),
    [
        ({"memory": 0.9}, "1.00", "resource memory: got a ratio of 0.9"),
        ({"cpu": 0.9}, "1.00", "resource cpu: got a ratio of 0.9"),
        ({}, "fast", "cpu-normalization-ratio: got 'fast'"),
        ({}, "0", "expected a number above 0"),
    ],
)
def test_a_ratio_below_one_or_without_sense_is_an_error(
    ratios: dict[str, Any], normalization: str, problem: str
) -> None:
    with pytest.raises(PluginError, match=problem):
        written(stage(ratios), **{NORMALIZATION: normalization})


def test_metadata_is_written_where_the_text_differs() -> None:
    made = stage({"memory": 1.5})
    before = node()
    after = made.prepared(before)
    assert made.plugin.need_sync_meta(made.strategy, before, after) == "ratio changed"
    assert made.plugin.need_sync_meta(made.strategy, after, made.prepared(after)) == ""


def test_a_section_that_cannot_be_read_stays_as_it_was_with_an_event() -> None:
    made = stage({"memory": 1.5})
    made.configure({"resource-amplification-config": '{"enable":"yes"}'})
    [(reason, message)] = made.events
    assert reason == "ResourceAmplificationCfgUnmarshalFailed"
    assert message.startswith("failed to unmarshal amplificationCfg, err: ")
    assert written(made) == '{"memory":1.50}'
    made.configure({"resource-amplification-config": '{"enable":false}'})
    assert made.enqueued[-1] == "*"
    assert written(made) is None
