"""Gangs that want a place in the network, and what keeps them from it."""

from typing import Any

import pytest

from koordpy.api.gang.topology_spec import GangTopologySpec, GatherRule
from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.api.scheme import decode
from koordpy.doctor import gang_topology
from koordpy.doctor.finding import Finding
from koordpy.doctor.gangs import AREA

BLOCK = GangTopologySpec((GatherRule("BlockLayer", "MustGather"),))
RACK = GangTopologySpec((GatherRule("RackLayer", "MustGather"),))
LAYERS: list[dict[str, Any]] = [
    {"topologyLayer": "BlockLayer", "labelKey": ["block"]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
]


def network(*layers: dict[str, Any]) -> ClusterNetworkTopology:
    document = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": list(layers)}}
    return decode(ClusterNetworkTopology, document)


def check(
    topology: ClusterNetworkTopology | None = None,
    specs: dict[str, GangTopologySpec] | None = None,
    *,
    aware: bool = True,
    ignored: bool = False,
    managed: bool = True,
) -> list[Finding]:
    wanted = {"ns/wide": BLOCK} if specs is None else specs
    return list(gang_topology.check(AREA, wanted, topology, aware=aware, ignored=ignored, managed=managed))


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (check(network(*LAYERS), aware=False), "Coscheduling is not aware of it"),
        (check(network(*LAYERS), managed=False), "koordpy does not follow it"),
        (check(None), "there is no ClusterNetworkTopology default"),
        (check(network(LAYERS[0])), "no path"),
        (check(network(*LAYERS), {"ns/wide": RACK}), "must gather in layer 'RackLayer'"),
    ],
    ids=["aware", "managed", "object", "layers", "layer"],
)
def test_what_keeps_a_gang_from_its_place_is_reported(found: list[Finding], message: str) -> None:
    assert len(found) == 1
    assert message in found[0].message


def test_nothing_is_reported_where_gangs_can_be_placed_or_want_nothing() -> None:
    assert check(network(*LAYERS)) == []
    assert check(None, {}, aware=False, managed=False) == []
    assert check(None, aware=False, ignored=True) == []
