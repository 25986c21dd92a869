"""NodeSLO specs over successive versions of the ConfigMap: `koordpy.api.slo.rendering`."""

from typing import Any

import msgspec

from koordpy.api.core import Node
from koordpy.api.quantity import from_wire
from koordpy.api.scheme import decode, without_nulls
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.api.slo.rendering import SLOConfig

from ..vectors import equal

BANDWIDTH = "totalNetworkBandwidth"


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    nodes = [decode(Node, document) for document in case_in["nodes"]]
    config = SLOConfig()
    stored: dict[str, NodeSLOSpec] = {}
    steps = []
    for step in case_in["steps"]:
        config, problems = config.updated(step["data"])
        stored = {node.metadata.name: config.spec_for(node, stored.get(node.metadata.name)) for node in nodes}
        steps.append({"unmarshalFailed": list(problems), "specs": msgspec.to_builtins(stored)})
    return {"steps": steps}


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    return equal(comparable(ours), comparable(expected))


def comparable(out: dict[str, Any]) -> Any:
    """Failures and specs without nulls, the bandwidth as an amount."""
    return [
        (step.get("unmarshalFailed") or [], amounts(without_nulls(step["specs"]))) for step in out["steps"]
    ]


def amounts(specs: dict[str, Any]) -> dict[str, Any]:
    for spec in specs.values():
        system = spec.get("systemStrategy", {})
        if BANDWIDTH in system:
            system[BANDWIDTH] = str(from_wire(system[BANDWIDTH]))
    return specs
