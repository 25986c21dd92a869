"""Light mode: kube-scheduler binds pods itself, and koordpy only filters and scores.

If no plugin allocates anything, nothing has to happen between the choice of a node and the binding: what
Reserve would record follows from the pod on its node, which the watch shows a little later. That saves a call
and a write for every pod. The cost is the delay: pods that kube-scheduler has placed and the watch has not
shown yet are not counted.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from koordpy.api.config_model import ConfigError
from koordpy.api.core import Pod
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.metrics import ATTEMPT_DURATION, ATTEMPTS, ATTEMPTS_KEPT, counter, histogram
from koordpy.scheduling.interface import (
    Bind,
    Permit,
    Plugin,
    PostBind,
    PreBind,
    ReservationPreBind,
    Reserve,
    ResizePod,
)
from koordpy.scheduling.interface.handle import Handle

from .attempts import Attempts

NOT_CALLED: Sequence[tuple[str, type]] = (
    ("reserve", Reserve),
    ("permit", Permit),
    ("pre_bind", PreBind),
    ("pre_bind", ReservationPreBind),
    ("bind", Bind),
    ("post_bind", PostBind),
)
"""The points that are never reached when kube-scheduler binds pods itself."""

BIND_REFUSED = (
    "koordpy runs in light mode (extender.mode: light) and binds no pods: remove bindVerb from the extenders "
    "in kube-scheduler's configuration, or set extender.mode: full"
)
"""The answer to a bind call."""


def check(frameworks: Iterable[Framework]) -> None:
    """Raise ConfigError naming every plugin that cannot work in light mode."""
    problems = [
        f"profile {framework.profile_name}: plugin {name} needs {', '.join(points)}, which light mode does "
        "not call: set extender.mode: full, or leave the plugin out"
        for framework in frameworks
        for name, points in kept_from(framework).items()
    ]
    if problems:
        raise ConfigError(*(f"extender.mode: got 'light', {problem}" for problem in problems))


def kept_from(framework: Framework) -> dict[str, list[str]]:
    """Return the plugins of a profile that cannot work in light mode, with the points they need."""
    found: dict[str, list[str]] = {}
    for point, plugin in _late(framework):
        if not plugin.watch_suffices and point not in found.setdefault(plugin.name, []):
            found[plugin.name].append(point)
    return {name: points for name, points in found.items() if points}


def _late(framework: Framework) -> Iterator[tuple[str, Plugin]]:
    for point, role in NOT_CALLED:
        for plugin in framework.enabled.enabled.get(point, ()):
            if isinstance(plugin, role):
                yield _camel(point), plugin
    for plugin in framework.plugins:
        if isinstance(plugin, ResizePod):
            yield "resizePod", plugin


def _camel(point: str) -> str:
    head, *rest = point.split("_")
    return head + "".join(part.title() for part in rest)


class WatchedBinds:
    """Ends attempts when the watch shows their pods on a node, as the end of a bind does in full mode.

    `asked` is called when a bind call would have reached this process in full mode.
    """

    def __init__(self, handle: Handle, attempts: Attempts, asked: Callable[[], None]) -> None:
        self._clock, self._attempts, self._asked = handle.clock, attempts, asked
        handle.on(Pod, add=self._seen, update=lambda _, pod: self._seen(pod))

    def _seen(self, pod: Pod) -> None:
        if not pod.spec.node_name:
            return
        attempt = self._attempts.get(pod.metadata.uid)
        if attempt is None:
            return
        self._asked()
        self._attempts.discard(attempt)
        ATTEMPTS_KEPT.set(len(self._attempts))
        attempt.decision.bound(pod.spec.node_name, pod.metadata.annotations)
        elapsed = self._clock.monotonic() - attempt.began
        attempt.decision.took("total", elapsed)
        profile = attempt.framework.profile_name
        counter(ATTEMPTS, "scheduled", profile).inc()
        histogram(ATTEMPT_DURATION, "scheduled", profile).observe(elapsed)
