"""Bandwidths of a node's classes and of pods, as Terway reads them. All are bytes a second.

Source: Koordinator, `pkg/koordlet/runtimehooks/hooks/terwayqos`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from koordpy.api import quantity
from koordpy.api.extension import ANNOTATION_NETWORK_QOS
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.api.slo.resource_qos import NetworkQOSCfg, ResourceQOS
from koordpy.lib import go_json, int64

POLICY: Final = "terway-qos"


@dataclass(frozen=True)
class ClassBandwidth:
    """What a class gets at least, and at most; 0 is not limited."""

    tx_min: int = 0
    tx_max: int = 0
    rx_min: int = 0
    rx_max: int = 0


@dataclass(frozen=True)
class NodeBandwidth:
    """The bandwidth of a node, of its class LS and of its class BE."""

    total: int = 0
    ls: ClassBandwidth = ClassBandwidth()
    be: ClassBandwidth = ClassBandwidth()

    def text(self) -> str:
        """Return the file `global_bps_config`."""
        lines = [("hw_tx_bps_max", self.total), ("hw_rx_bps_max", self.total)]
        for level, of_class in (("l1", self.ls), ("l2", self.be)):
            lines += [
                (f"offline_{level}_tx_bps_min", of_class.tx_min),
                (f"offline_{level}_tx_bps_max", of_class.tx_max),
                (f"offline_{level}_rx_bps_min", of_class.rx_min),
                (f"offline_{level}_rx_bps_max", of_class.rx_max),
            ]
        return "".join(f"{name} {value}\n" for name, value in lines)


def is_enabled(slo: NodeSLOSpec) -> bool:
    """Return whether a NodeSLO asks for Terway."""
    strategy = slo.resource_qos_strategy
    policies = strategy.policies if strategy is not None else None
    return policies is not None and policies.net_qos_policy == POLICY


def of_node(slo: NodeSLOSpec) -> NodeBandwidth:
    """Return the bandwidths of a NodeSLO. Raises ValueError."""
    system, strategy = slo.system_strategy, slo.resource_qos_strategy
    if system is None or strategy is None:
        return NodeBandwidth()
    total = quantity.value(system.total_network_bandwidth or "0")
    if total < 0:
        raise ValueError(f"totalNetworkBandwidth: got {total}, expected 0 or more")
    return NodeBandwidth(total // 8, _of_class(strategy.ls_class, total), _of_class(strategy.be_class, total))


def of_pod(annotations: Mapping[str, str]) -> tuple[int, int]:
    """Return the ingress and egress limits of a pod, 0 for none. Raises ValueError."""
    text = annotations.get(ANNOTATION_NETWORK_QOS)
    if not text:
        return 0, 0
    document = go_json.members(go_json.parse(text), ANNOTATION_NETWORK_QOS)
    ingress, egress = (
        quantity.parse(go_json.text(document.get(name), name)).value() // 8
        for name in ("ingresslimit", "egresslimit")
    )
    return ingress, egress


def _of_class(of_class: ResourceQOS | None, total: int) -> ClassBandwidth:
    network: NetworkQOSCfg | None = of_class.network_qos if of_class is not None else None
    if network is None or not network.enable:
        return ClassBandwidth()
    return ClassBandwidth(
        tx_min=_amount(network.egress_request, total),
        tx_max=_amount(network.egress_limit, total),
        rx_min=_amount(network.ingress_request, total),
        rx_max=_amount(network.ingress_limit, total),
    )


def _amount(given: Any, total: int) -> int:
    """Return an amount: a text is bits a second, an integer a percentage of the total's number, as it is."""
    if given is None:
        return 0
    if isinstance(given, str):
        found = quantity.parse(given).value() // 8
        if found > total:
            raise ValueError(f"quantity {given} is larger than total {total}")
        return found
    return int64.quotient(given * total, 100)
