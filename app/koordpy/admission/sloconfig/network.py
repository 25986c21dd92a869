"""The rules of network bandwidth, which resource-qos-config shares with system-config.

Percentages and amounts enter the sums alike, with their whole numbers; so amounts that sum up to more than
100 are refused, and percentages where no bandwidth is configured. Source: Koordinator,
`pkg/webhook/cm/plugins/sloconfig/resource_qos_checker.go`.
"""

from collections.abc import Iterator
from typing import Any

from koordpy.api.quantity import QuantityError, parse, value
from koordpy.lib import int64

from .reader import Values
from .refusal import ConfigRefused
from .selector import NodeStrategy
from .shapes import NETWORK_FIELDS, QOS, go_name

_CLASSES = ("lsrClass", "lsClass", "beClass")
_REQUESTS = {direction: f"{direction}Request" for direction in ("ingress", "egress")}


def check(qos: Values, system: Values, qos_nodes: list[NodeStrategy], system_selectors: list[Any]) -> None:
    """Check the network requests and limits of a configuration. Raises ConfigRefused.

    `system_selectors` are the selectors of the system configuration's node strategies, in order.
    """
    cluster = qos["cluster"]
    nodes = qos["nodes"]
    if cluster is not None:
        _check_elements(cluster, "ResourceQOSCfg.ClusterStrategy.")
    for index, node in enumerate(nodes):
        _check_elements(node, f"ResourceQOSCfg.nodeStrategy.{index}.")
    strategies = [] if cluster is None else [(cluster, "clusterStrategy", "ClusterStrategy")]
    strategies += [
        (node, f"nodeStrategy[{index}]", f"cfg.NodeStrategies[{index}]") for index, node in enumerate(nodes)
    ]
    for strategy, place, _ in strategies:
        if len({type(amount) for _, _, amount in _amounts(strategy, *_REQUESTS.values())}) > 1:
            raise ConfigRefused(f"only one type can be used for percentages or quantity in {place}")
    for strategy, _, place in strategies:
        if _is_over(strategy, 100):
            raise ConfigRefused(f"{place} total net bandwidth percentage already over 100")
    if (
        cluster is not None
        and system["cluster"] is not None
        and _is_over(cluster, _bandwidth(system["cluster"]))
    ):
        raise ConfigRefused("total net bandwidth over total network bandwidth in clusterStrategy")
    for index, node in enumerate(nodes):
        if _is_over(node, _node_bandwidth(qos_nodes[index].wire, system, system_selectors)):
            raise ConfigRefused(
                "total net bandwidth quantity already over total network bandwidth in "
                f"cfg.NodeStrategies[{index}]"
            )


def _amounts(strategy: Values, *fields: str) -> Iterator[tuple[str, str, int | str]]:
    """Yield class, field and amount of what is set, in the order in which it is checked."""
    for class_ in _CLASSES:
        network = strategy.get(class_, {}).get("networkQOS", {})
        for field in fields:
            if field in network:
                yield class_, field, network[field]


def _check_elements(strategy: Values, path: str) -> None:
    for class_, field, amount in _amounts(strategy, *NETWORK_FIELDS):
        place = f"{path}{QOS.shapes[class_].path}{go_name(field)}: Invalid value"
        if isinstance(amount, int):
            if not 0 <= amount <= 100:
                raise ConfigRefused(f"{place}: {amount}: must be percentage value just in 0-100'")
            continue
        try:
            parse(amount)
        except QuantityError as error:
            raise ConfigRefused(f'{place}: "{amount}": {error}') from None


def _is_over(strategy: Values, bandwidth: int) -> bool:
    """Return whether the requests of one direction sum up to more than `bandwidth`."""
    for field in _REQUESTS.values():
        left = bandwidth
        for _, _, amount in _amounts(strategy, field):
            left = int64.wrap(left - value(amount))
        if left < 0:
            return True
    return False


def _bandwidth(system: Values) -> int:
    return value(system.get("totalNetworkBandwidth", 0))


def _node_bandwidth(wire: Any, system: Values, system_selectors: list[Any]) -> int:
    """Return the bandwidth of the nodes that a strategy selects, 0 where none is configured."""
    if not system["nodes"]:
        return 0 if system["cluster"] is None else _bandwidth(system["cluster"])
    for node, selector in zip(system["nodes"], system_selectors, strict=True):
        if selector == wire:
            return _bandwidth(node)
    return 0
