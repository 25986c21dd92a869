"""Which pods share physical cores, and which QoS directories are idle, by the NodeSLO."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from koordpy.agent.interface.hook import PodRequest
from koordpy.api.extension import LABEL_CORE_SCHED_GROUP_ID, LABEL_CORE_SCHED_POLICY
from koordpy.api.qos import KubeQoS, QoSClass
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.api.slo.resource_qos import ResourceQOS, ResourceQOSStrategy

POLICY: Final = "coreSched"
EXPELLER_SUFFIX: Final = "-expeller"


@dataclass(frozen=True)
class Param:
    """The settings of one class."""

    enabled: bool = False
    expeller: bool = False
    """Its groups are apart from those of classes that are no expellers."""
    idle: bool = False


@dataclass(frozen=True)
class CoreSchedRule:
    """The settings of all classes."""

    of_class: Mapping[QoSClass, Param] = field(default_factory=dict)
    of_kube_qos: Mapping[str, Param] = field(default_factory=dict)
    """Of pods without a class, and of QoS directories."""

    @property
    def enabled(self) -> bool:
        """Whether any class takes part."""
        return any(param.enabled for param in self.of_class.values())

    def group(self, pod: PodRequest) -> tuple[bool, str]:
        """Return whether core scheduling is enabled for a pod, and its group."""
        param = Param()
        if self.enabled:
            param = self.of_class.get(pod.qos) or self.of_kube_qos.get(pod.kube_qos) or param
        policy = pod.labels.get(LABEL_CORE_SCHED_POLICY, "")
        group = pod.uid if policy == "exclusive" else pod.labels.get(LABEL_CORE_SCHED_GROUP_ID, "")
        suffix = EXPELLER_SUFFIX if param.expeller else ""
        return param.enabled and policy != "none", group + suffix


def parse(slo: NodeSLOSpec) -> CoreSchedRule:
    """Return the settings that a NodeSLO asks for."""
    strategy = slo.resource_qos_strategy or ResourceQOSStrategy()
    active = strategy.policies is not None and strategy.policies.cpu_policy == POLICY
    lsr, ls, be = (
        _param(of_class) if active else Param()
        for of_class in (strategy.lsr_class, strategy.ls_class, strategy.be_class)
    )
    return CoreSchedRule(
        of_class={QoSClass.LSE: lsr, QoSClass.LSR: lsr, QoSClass.LS: ls, QoSClass.BE: be},
        of_kube_qos={
            KubeQoS.GUARANTEED: lsr if lsr.enabled else ls,
            KubeQoS.BURSTABLE: ls,
            KubeQoS.BEST_EFFORT: be,
        },
    )


def _param(of_class: ResourceQOS | None) -> Param:
    cpu = of_class.cpu_qos if of_class is not None else None
    if cpu is None:
        return Param()
    return Param(bool(cpu.enable), bool(cpu.core_expeller), cpu.sched_idle == 1)
