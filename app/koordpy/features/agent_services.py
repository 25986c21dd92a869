"""What the node agent does besides its plugins, where that needs something of its own."""

from collections.abc import Iterator
from typing import Final

from koordpy.agent.engine.eviction import ONLY_BY_API
from koordpy.agent.engine.privileges import OF_PRESSURE_TRIGGERS, OF_THE_AGENT
from koordpy.agent.interface.gates import PRESSURE_TRIGGERS
from koordpy.agent.states import kubelet, kubelet_pods
from koordpy.api.needs import Right
from koordpy.settings import Settings

from .feature import Feature, Part

_EVENTS: Final = "events.k8s.io"

ENFORCEMENT: Final = Feature(part=Part.AGENT, name="the agent itself", privileges=OF_THE_AGENT)

EVICTION_BY_API: Final = Feature(
    part=Part.AGENT,
    name="eviction through the API server",
    rights=(
        Right("create", "pods/eviction"),
        Right("create", "events", _EVENTS),
        Right("patch", "events", _EVENTS),
    ),
    on_by_default=False,
    elsewhere=(f"--{ONLY_BY_API}",),
)

PODS_FROM_KUBELET: Final = Feature(
    part=Part.AGENT,
    name="pods from the kubelet",
    rights=kubelet.RIGHTS,
    on_by_default=False,
    elsewhere=(
        f"--{kubelet_pods.SOURCE_FLAG}={kubelet_pods.KUBELET}",
        "kubelets of Kubernetes 1.33 and later; older ones want the right get nodes/proxy",
    ),
)

PRESSURE: Final = Feature(
    part=Part.AGENT,
    name="pressure triggers",
    gates=(PRESSURE_TRIGGERS,),
    on_by_default=False,
    privileges=OF_PRESSURE_TRIGGERS,
)

AGENT_SERVICES: Final = (ENFORCEMENT, EVICTION_BY_API, PODS_FROM_KUBELET, PRESSURE)


def switched(settings: Settings) -> Iterator[Feature]:
    """Yield those that settings switch on."""
    flags = settings.agent.flags
    yield ENFORCEMENT
    if str(flags.get(ONLY_BY_API, False)).lower() == "true":
        yield EVICTION_BY_API
    if flags.get(kubelet_pods.SOURCE_FLAG) == kubelet_pods.KUBELET:
        yield PODS_FROM_KUBELET
    if settings.feature_gates.get(PRESSURE_TRIGGERS):
        yield PRESSURE
