"""Bandwidths of a node, its classes and its pods, in bits a second.

Source: Koordinator, `pkg/koordlet/runtimehooks/hooks/tc`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from koordpy.api import quantity
from koordpy.api.extension import ANNOTATION_NETWORK_QOS
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.api.slo.resource_qos import ResourceQOS
from koordpy.lib import go_json

POLICY: Final = "tc"


@dataclass(frozen=True)
class ClassBandwidth:
    """What a class may send at least, and at most; 0 where nothing is configured."""

    request: int = 0
    limit: int = 0


@dataclass(frozen=True)
class NodeBandwidth:
    """What a node may send in all, and its classes LS and BE."""

    total: int
    ls: ClassBandwidth = ClassBandwidth()
    be: ClassBandwidth = ClassBandwidth()


def is_enabled(slo: NodeSLOSpec) -> bool:
    """Return whether a NodeSLO leaves network QoS to traffic control: it does unless it names another."""
    strategy = slo.resource_qos_strategy
    policies = strategy.policies if strategy is not None else None
    policy = policies.net_qos_policy if policies is not None else None
    return policy is None or policy == POLICY


def of_node(slo: NodeSLOSpec) -> NodeBandwidth:
    """Return the bandwidths of a NodeSLO. Raises ValueError for a total that is no amount."""
    system, strategy = slo.system_strategy, slo.resource_qos_strategy
    total = quantity.value((system.total_network_bandwidth if system is not None else None) or "0")
    if total < 0:
        raise ValueError(f"totalNetworkBandwidth: got {total}, expected 0 or more")
    if strategy is None:
        return NodeBandwidth(total)
    return NodeBandwidth(total, _of_class(strategy.ls_class, total), _of_class(strategy.be_class, total))


def egress_limit(annotations: Mapping[str, str]) -> int:
    """Return what a pod may send at most by its annotation, 0 for no limit. Raises ValueError.

    Koordinator divides the amount by 8 twice, and so grants an eighth of what is asked for.
    """
    text = annotations.get(ANNOTATION_NETWORK_QOS)
    if not text:
        return 0
    document = go_json.members(go_json.parse(text), ANNOTATION_NETWORK_QOS)
    given = document.get("egresslimit")
    limit = 0 if given is None else quantity.parse(go_json.text(given, "egresslimit")).value()
    if limit < 0:
        raise ValueError(f"annotation {ANNOTATION_NETWORK_QOS}: egressLimit is {limit}, expected 0 or more")
    return limit


def _of_class(of_class: ResourceQOS | None, total: int) -> ClassBandwidth:
    network = of_class.network_qos if of_class is not None else None
    if network is None or not network.enable:
        return ClassBandwidth()
    return ClassBandwidth(_amount(network.egress_request, total), _amount(network.egress_limit, total))


def _amount(given: Any, total: int) -> int:
    """Return an amount: a text is bits a second, an integer a percentage; 0 for what is neither."""
    if isinstance(given, str):
        try:
            return max(quantity.value(given), 0)
        except ValueError:
            return 0
    if isinstance(given, int) and 0 <= given <= 100:
        return total * given // 100
    return 0
