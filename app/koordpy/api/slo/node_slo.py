"""The spec of a NodeSLO: the strategies of one node.

Source: Koordinator, `apis/slo/v1alpha1/nodeslo_types.go`, `pkg/util/sloconfig/nodeslo_config.go` and
`pkg/koordlet/statesinformer/impl/states_nodeslo.go`.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from . import cpu_burst, resource_qos, system, threshold
from .cpu_burst import CPUBurstStrategy
from .host_application import HostApplicationSpec
from .merge import merge, merge_json
from .resource_qos import ResourceQOS, ResourceQOSStrategy
from .strategy import Strategy
from .system import SystemStrategy
from .threshold import ResourceThresholdStrategy


class ExtensionsMap(Strategy, frozen=True, omit_defaults=False):
    """Sections of third parties. The name `Object` is part of the JSON, and is always written."""

    object: dict[str, Any] = msgspec.field(default_factory=dict, name="Object")


class NodeSLOSpec(Strategy, frozen=True):
    """The sections; None if a NodeSLO does not have one."""

    resource_used_threshold_with_be: ResourceThresholdStrategy | None = msgspec.field(
        default=None, name="resourceUsedThresholdWithBE"
    )
    resource_qos_strategy: ResourceQOSStrategy | None = msgspec.field(
        default=None, name="resourceQOSStrategy"
    )
    cpu_burst_strategy: CPUBurstStrategy | None = None
    system_strategy: SystemStrategy | None = None
    host_applications: list[HostApplicationSpec] = []
    extensions: ExtensionsMap | None = None


DEFAULT: Final = NodeSLOSpec(
    resource_used_threshold_with_be=threshold.DEFAULT,
    resource_qos_strategy=resource_qos.DEFAULT,
    cpu_burst_strategy=cpu_burst.DEFAULT,
    system_strategy=system.DEFAULT,
)
"""The defaults of a node for an empty NodeSLO."""


def completed(spec: NodeSLOSpec, extension_defaults: Mapping[str, Any] | None = None) -> NodeSLOSpec:
    """Return a spec with every default filled in, as used by a node's agent.

    If a CPU, memory or resctrl section of the classes LSR, LS and BE is disabled, its values are the neutral
    ones. Of the extensions, only those with a registered default are kept.
    """
    given = spec.extensions.object if spec.extensions is not None else {}
    full = merge(DEFAULT, spec)
    qos = full.resource_qos_strategy or resource_qos.DEFAULT
    return msgspec.structs.replace(
        full,
        resource_qos_strategy=msgspec.structs.replace(
            qos,
            lsr_class=_neutral_where_off(qos.lsr_class),
            ls_class=_neutral_where_off(qos.ls_class),
            be_class=_neutral_where_off(qos.be_class),
        ),
        extensions=ExtensionsMap(
            object={
                key: merge_json(default, given.get(key))
                for key, default in (extension_defaults or {}).items()
            }
        ),
    )


def _neutral_where_off(of_class: ResourceQOS | None) -> ResourceQOS:
    of_class = of_class or ResourceQOS()
    cpu, memory, resctrl = of_class.cpu_qos, of_class.memory_qos, of_class.resctrl_qos
    return msgspec.structs.replace(
        of_class,
        cpu_qos=cpu if cpu is not None and cpu.enable else resource_qos.NO_CPU_QOS,
        memory_qos=memory if memory is not None and memory.enable else resource_qos.NO_MEMORY_QOS,
        resctrl_qos=resctrl if resctrl is not None and resctrl.enable else resource_qos.NO_RESCTRL_QOS,
    )
