"""The group identities (bvt) of a node, by QoS class."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from koordpy.api.qos import KubeQoS, QoSClass
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.api.slo.resource_qos import ResourceQOS, ResourceQOSStrategy

NEUTRAL: Final = 0
POLICY: Final = "groupIdentity"


@dataclass(frozen=True)
class IdentityRule:
    """Identities; classes that are missing have the neutral one. Before any NodeSLO it is off."""

    enabled: bool = False
    of_class: Mapping[QoSClass, int] = field(default_factory=dict)
    of_pod: Mapping[str, int] = field(default_factory=dict)
    """Of pods without a class, by Kubernetes' QoS class."""
    of_directory: Mapping[str, int] = field(default_factory=dict)

    def pod(self, qos: QoSClass, kube_qos: str) -> int:
        """Return the identity of a pod by its class, else by Kubernetes' QoS class."""
        found = self.of_class.get(qos)
        return self.of_pod.get(kube_qos, NEUTRAL) if found is None else found

    def directory(self, kube_qos: str) -> int:
        """Return the identity of a QoS directory."""
        return self.of_directory.get(kube_qos, NEUTRAL)

    def host_application(self, qos: str) -> int:
        """Return the identity of a host application."""
        return next((value for name, value in self.of_class.items() if name == qos), NEUTRAL)


def parse(slo: NodeSLOSpec) -> IdentityRule:
    """Return the identities that a NodeSLO asks for."""
    strategy = slo.resource_qos_strategy or ResourceQOSStrategy()
    policy = strategy.policies.cpu_policy if strategy.policies is not None else None
    active = not policy or policy == POLICY
    lsr, ls, be = (
        _identity(of_class) if active else None
        for of_class in (strategy.lsr_class, strategy.ls_class, strategy.be_class)
    )
    guaranteed = lsr if lsr is not None else ls
    return IdentityRule(
        enabled=any(identity is not None for identity in (lsr, ls, be)),
        of_class={
            QoSClass.LSE: lsr or NEUTRAL,
            QoSClass.LSR: lsr or NEUTRAL,
            QoSClass.LS: ls or NEUTRAL,
            QoSClass.BE: be or NEUTRAL,
        },
        of_pod={
            KubeQoS.GUARANTEED: guaranteed or NEUTRAL,
            KubeQoS.BURSTABLE: ls or NEUTRAL,
            KubeQoS.BEST_EFFORT: be or NEUTRAL,
        },
        of_directory={
            KubeQoS.GUARANTEED: NEUTRAL,
            KubeQoS.BURSTABLE: ls or NEUTRAL,
            KubeQoS.BEST_EFFORT: be or NEUTRAL,
        },
    )


def _identity(of_class: ResourceQOS | None) -> int | None:
    """Return the identity of a class, None where its CPU section is disabled."""
    cpu = of_class.cpu_qos if of_class is not None else None
    if cpu is None or not cpu.enable:
        return None
    return cpu.group_identity or NEUTRAL
