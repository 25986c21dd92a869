"""Which of two pods is more important.

Source: Kubernetes, `pkg/scheduler/util` (`MoreImportantPod`, `GetPodStartTime`).
"""

from collections.abc import Iterable
from datetime import datetime

from koordpy.api.core import Pod
from koordpy.api.meta import parse_time


def priority_of(pod: Pod) -> int:
    """Return a pod's priority; without one it is 0."""
    return pod.spec.priority or 0


def start_of(pod: Pod, now: datetime) -> datetime:
    """Return when a pod was started; `now` if it has not started."""
    started = pod.status.start_time
    return parse_time(started) if started else now


def by_importance(pods: Iterable[Pod], now: datetime) -> list[Pod]:
    """Sort pods: higher priority first, then earlier start; equal ones keep their order."""
    return sorted(pods, key=lambda pod: (-priority_of(pod), start_of(pod, now)))
