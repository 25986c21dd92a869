"""Which layers of the network a gang wants its pods to share.

Source: Koordinator, `apis/extension/network_topology.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from koordpy.lib import go_json

ANNOTATION_TOPOLOGY_SPEC: Final = "gang.scheduling.koordinator.sh/network-topology-spec"
MUST_GATHER: Final = "MustGather"
PREFER_GATHER: Final = "PreferGather"


@dataclass(frozen=True, slots=True)
class GatherRule:
    """What is wanted of one layer: its strategy, and how many pods go to each of its members at a time."""

    layer: str
    strategy: str
    pod_count_multiple: int = 0


@dataclass(frozen=True, slots=True)
class GangTopologySpec:
    """What a gang wants, layer by layer, as it is written."""

    gather_strategy: tuple[GatherRule, ...] = ()


def topology_spec_of(annotations: Mapping[str, str]) -> GangTopologySpec | None:
    """Return what annotations of a pod or a PodGroup want, None without a valid annotation."""
    text = annotations.get(ANNOTATION_TOPOLOGY_SPEC, "")
    if not text:
        return None
    try:
        return _read(text)
    except ValueError:
        return None


def _read(text: str) -> GangTopologySpec:
    spec = go_json.members(go_json.parse(text), ANNOTATION_TOPOLOGY_SPEC)
    rules = []
    for item in go_json.array(spec.get("gatherstrategy"), "gatherStrategy") or []:
        rule = go_json.members(item, "gatherStrategy")
        rules.append(
            GatherRule(
                go_json.text(rule.get("layer"), "layer"),
                go_json.text(rule.get("strategy"), "strategy"),
                go_json.integer(rule.get("podcountmultiple"), "podCountMultiple"),
            )
        )
    return GangTopologySpec(tuple(rules))
