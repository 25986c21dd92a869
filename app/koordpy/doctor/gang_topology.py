"""Whether gangs that want a place in the network can get one: the settings, and the layers of the network."""

from collections.abc import Collection, Iterator, Mapping

from koordpy.api.gang.topology_spec import MUST_GATHER, GangTopologySpec
from koordpy.api.network_topology import CLUSTER_TOPOLOGY_LAYER, DEFAULT_NAME, ClusterNetworkTopology
from koordpy.cluster.network_topology.tree import TopologyError, build

from .finding import Area, Finding

SUBJECT = "network topology"


def check(
    area: Area,
    specs: Mapping[str, GangTopologySpec],
    topology: ClusterNetworkTopology | None,
    *,
    aware: bool,
    ignored: bool,
    managed: bool,
) -> Iterator[Finding]:
    """Report why gangs (what they want, by ID) cannot be placed in the network.

    `aware` and `ignored` are arguments of Coscheduling, `managed` is the setting of the extender. `topology`
    is None if there is none.
    """
    if not specs or ignored:
        return
    name = next(iter(specs))
    wanting = name if len(specs) == 1 else f"{name} and {len(specs) - 1} more gangs"
    if not aware:
        yield area.problem(
            wanting,
            "wants a place in the network, and Coscheduling is not aware of it: its pods cannot be scheduled",
            "set awareNetworkTopology (or ignoreNetworkTopologySpec) of Coscheduling to true",
        )
        return
    if not managed:
        yield area.problem(
            wanting,
            "wants a place in the network, and koordpy does not follow it: its pods cannot be scheduled",
            "extender.networkTopologyManager: true",
        )
        return
    if topology is None:
        yield area.problem(
            wanting,
            f"wants a place in the network, and there is no ClusterNetworkTopology {DEFAULT_NAME}",
            "create it with the layers of the network (docs/network-topology.md)",
        )
        return
    try:
        tree = build(topology, ())
    except TopologyError as error:
        yield area.problem(
            f"ClusterNetworkTopology {DEFAULT_NAME}",
            f"its layers are no path from the nodes upwards: {error}",
            "correct spec.networkTopologySpec",
        )
        return
    yield from _layers(area, specs, {CLUSTER_TOPOLOGY_LAYER, *tree.layers})


def _layers(area: Area, specs: Mapping[str, GangTopologySpec], layers: Collection[str]) -> Iterator[Finding]:
    """Report the first gang that must share a layer that the network does not have."""
    for name, spec in specs.items():
        unknown = [
            rule.layer
            for rule in spec.gather_strategy
            if rule.strategy == MUST_GATHER and rule.layer not in layers
        ]
        if unknown:
            yield area.problem(
                name,
                f"must gather in layer {unknown[0]!r}, which the network does not have",
                f"one of {', '.join(sorted(layers))}",
            )
            return
