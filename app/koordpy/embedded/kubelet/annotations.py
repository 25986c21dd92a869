"""What people write on pods and nodes to make the stand-in kubelets behave differently.

Without any, a pod runs for as long as its command says (`sleep 30`); else for ever, or briefly if it is a
Job's.
"""

from collections.abc import Mapping
from typing import Final

from koordpy.api import quantity
from koordpy.lib import duration

RUN_FOR: Final = "kubelet.koordpy.dev/run-for"
"""How long the containers run, such as `90s`."""
EXIT_CODE: Final = "kubelet.koordpy.dev/exit-code"
"""The exit code of the containers when they have run for that long."""
START_AFTER: Final = "kubelet.koordpy.dev/start-after"
"""How long the pod is in ContainerCreating."""
READY_AFTER: Final = "kubelet.koordpy.dev/ready-after"
"""How long after their start the containers are ready; `never` is allowed."""
STOP_AFTER: Final = "kubelet.koordpy.dev/stop-after"
"""How long the containers take to stop, at most the grace period."""
IMAGE: Final = "kubelet.koordpy.dev/image"
"""`missing`: no image of the pod can be pulled."""
USED_CPU: Final = "usage.koordpy.dev/cpu"
"""What a pod, or a node beside its pods, uses of cpu: an amount, such as `1500m`."""
USED_MEMORY: Final = "usage.koordpy.dev/memory"
"""What a pod, or a node beside its pods, uses of memory."""
DOWN: Final = "kubelet.koordpy.dev/down"
"""On a node, `true`: its kubelet is dead. It reports nothing, and its pods neither start nor end."""

NEVER: Final = "never"


def seconds(annotations: Mapping[str, str], name: str, default: float | None) -> float | None:
    """Return a duration; None for `never`, the default if it is missing or not a duration."""
    text = annotations.get(name, "")
    if not text:
        return default
    if text == NEVER:
        return None
    try:
        return max(duration.parse(text) / duration.SECOND, 0.0)
    except ValueError:
        return default


def number(annotations: Mapping[str, str], name: str, default: int) -> int:
    """Return a number from 0 to 255, the default if it is missing or not one."""
    text = annotations.get(name, "")
    return int(text) if text.isdigit() and int(text) < 256 else default


def amount(annotations: Mapping[str, str], name: str, resource: str) -> float | None:
    """Return an amount (milli-CPU or bytes), None if it is missing or not a quantity."""
    text = annotations.get(name, "")
    if not text:
        return None
    try:
        return float(quantity.resource_value(resource, text))
    except ValueError:
        return None
