"""The rules of network bandwidth, which resource-qos-config shares with system-config.

Percentages and amounts are summed the same way, as whole numbers; so amounts that sum up to more than 100 are
rejected, and percentages if no bandwidth is configured. Source: Koordinator,
`pkg/webhook/cm/plugins/sloconfig/resource_qos_checker.go`.
"""

from collections.abc import Iterator
from typing import Final

from koordpy.api.meta import LabelSelector
from koordpy.api.quantity import QuantityError, parse, value
from koordpy.lib import int64

from .config import Config, NodeConfig
from .resource_qos import NetworkQOS, ResourceQOSStrategy
from .rules import go_name
from .strategy import fields_of
from .system import SystemStrategy

_CLASSES: Final = ("lsrClass", "lsClass", "beClass")
_REQUESTS: Final = ("ingressRequest", "egressRequest")


class InvalidBandwidth(ValueError):
    """Requests or limits of bandwidth break a rule; the text is Koordinator's."""


def check(qos: Config[ResourceQOSStrategy], system: Config[SystemStrategy]) -> None:
    """Check the network requests and limits of resource-qos-config. Raises InvalidBandwidth."""
    cluster = qos.cluster
    nodes = [(at, node, node.strategy or ResourceQOSStrategy()) for at, node in enumerate(qos.nodes)]
    if cluster is not None:
        _check_elements(cluster, "ResourceQOSCfg.ClusterStrategy.")
    for at, _, strategy in nodes:
        _check_elements(strategy, f"ResourceQOSCfg.nodeStrategy.{at}.")
    strategies = [] if cluster is None else [(cluster, "clusterStrategy", "ClusterStrategy")]
    strategies += [
        (strategy, f"nodeStrategy[{at}]", f"cfg.NodeStrategies[{at}]") for at, _, strategy in nodes
    ]
    for strategy, place, _ in strategies:
        if len({type(amount) for _, _, amount in _amounts(strategy, *_REQUESTS)}) > 1:
            raise InvalidBandwidth(f"only one type can be used for percentages or quantity in {place}")
    for strategy, _, place in strategies:
        if _is_over(strategy, 100):
            raise InvalidBandwidth(f"{place} total net bandwidth percentage already over 100")
    if cluster is not None and system.cluster is not None and _is_over(cluster, _bandwidth(system.cluster)):
        raise InvalidBandwidth("total net bandwidth over total network bandwidth in clusterStrategy")
    for at, node, strategy in nodes:
        if _is_over(strategy, _bandwidth_for(node.profile.node_selector, system)):
            raise InvalidBandwidth(
                "total net bandwidth quantity already over total network bandwidth in "
                f"cfg.NodeStrategies[{at}]"
            )


def _amounts(strategy: ResourceQOSStrategy, *names: str) -> Iterator[tuple[str, str, int | str]]:
    """Yield class, field and amount of all set values, in the order of checking."""
    classes, fields = fields_of(ResourceQOSStrategy), fields_of(NetworkQOS)
    for class_ in _CLASSES:
        of_class = getattr(strategy, classes[class_].attribute)
        network = of_class.network_qos if of_class is not None else None
        for name in names if network is not None else ():
            amount = getattr(network, fields[name].attribute)
            if amount is not None:
                yield class_, name, amount


def _check_elements(strategy: ResourceQOSStrategy, path: str) -> None:
    for class_, name, amount in _amounts(strategy, *fields_of(NetworkQOS)):
        place = f"{path}{go_name(class_)}.{go_name(name)}: Invalid value"
        if isinstance(amount, int):
            if not 0 <= amount <= 100:
                raise InvalidBandwidth(f"{place}: {amount}: must be percentage value just in 0-100'")
            continue
        try:
            parse(amount)
        except QuantityError as error:
            raise InvalidBandwidth(f'{place}: "{amount}": {error}') from None


def _is_over(strategy: ResourceQOSStrategy, bandwidth: int) -> bool:
    """Return whether the requests of one direction sum up to more than `bandwidth`."""
    for name in _REQUESTS:
        left = bandwidth
        for _, _, amount in _amounts(strategy, name):
            left = int64.wrap(left - value(amount))
        if left < 0:
            return True
    return False


def _bandwidth(system: SystemStrategy | None) -> int:
    return value(system.total_network_bandwidth) if system is not None else 0


def _bandwidth_for(selector: LabelSelector | None, system: Config[SystemStrategy]) -> int:
    """Return the bandwidth of the nodes that a strategy selects, 0 if none is configured."""
    if not system.nodes:
        return _bandwidth(system.cluster)
    found: NodeConfig[SystemStrategy] | None = next(
        (node for node in system.nodes if node.profile.node_selector == selector), None
    )
    return _bandwidth(found.strategy) if found is not None else 0
