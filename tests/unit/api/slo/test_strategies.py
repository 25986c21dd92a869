"""The strategies are those of the CRD of NodeSLO, and their defaults keep their own rules."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from koordpy.api.slo import colocation, cpu_burst, node_slo, resource_qos, system, threshold
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.api.slo.rules import AtLeast, AtMost
from koordpy.api.slo.strategy import Field, Strategy, fields_of
from koordpy.api.slo.validation import problems

CRD = Path(__file__).parents[4] / "deploy" / "crds" / "nodeslos.slo.koordinator.sh.yaml"


def schema() -> dict[str, Any]:
    versions = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    spec: dict[str, Any] = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return spec


def pairs(
    type_: type[msgspec.Struct], properties: Mapping[str, Any], path: str = ""
) -> Iterator[tuple[str, Field | None, Any]]:
    """Every field with its schema, None for one that the other side does not have."""
    fields = fields_of(type_)
    for name in sorted(fields.keys() | properties.keys()):
        field, found = fields.get(name), properties.get(name)
        yield f"{path}{name}", field, found
        if field is not None and field.struct is not None and found is not None:
            inner = found["items"] if found["type"] == "array" else found
            if "properties" in inner:
                yield from pairs(field.struct, inner["properties"], f"{path}{name}.")


def test_fields_are_those_of_the_crd() -> None:
    assert [
        path
        for path, field, found in pairs(NodeSLOSpec, schema()["properties"])
        if field is None or found is None
    ] == []


def test_rules_are_at_least_as_narrow_as_the_crd() -> None:
    wider = []
    for path, field, found in pairs(NodeSLOSpec, schema()["properties"]):
        if field is None or not field.rules:
            continue
        lower = [rule.bound for rule in field.rules if isinstance(rule, AtLeast)]
        upper = [rule.bound for rule in field.rules if isinstance(rule, AtMost)]
        if ("minimum" in found and not (lower and lower[0] >= found["minimum"])) or (
            "maximum" in found and not (upper and upper[0] <= found["maximum"])
        ):
            wider.append(path)
    assert wider == []


@pytest.mark.parametrize(
    "default",
    [
        cpu_burst.DEFAULT,
        colocation.DEFAULT,
        resource_qos.DEFAULT,
        system.CLUSTER_DEFAULT,
    ],
    ids=lambda default: type(default).__name__,
)
def test_defaults_keep_their_own_rules(default: Strategy) -> None:
    assert problems(default, "") == {}


def test_an_upper_threshold_alone_is_refused_even_in_the_defaults() -> None:
    assert problems(threshold.DEFAULT, "ClusterStrategy.") == {
        "ClusterStrategy.MemoryEvictThresholdPercent": "MemoryEvictThresholdPercent must be greater than "
        "MemoryEvictLowerPercent"
    }


def test_what_is_written_is_read_again() -> None:
    raw = msgspec.json.encode(node_slo.DEFAULT)
    assert msgspec.json.decode(raw, type=NodeSLOSpec) == node_slo.DEFAULT
