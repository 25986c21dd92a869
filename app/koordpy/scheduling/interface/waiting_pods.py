"""Pods that wait in Permit.

Beside kube-scheduler a waiting pod is a pending HTTP response: thousands may wait at once, each at the cost
of a future.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping

from koordpy.api.core import Pod
from koordpy.lib import duration

from .status import SUCCESS, Status


class WaitingPod:
    """One waiting pod. Every plugin that made it wait must allow it; the first rejection ends the wait."""

    def __init__(self, pod: Pod, node_name: str, timeouts: Mapping[str, float]) -> None:
        self.pod = pod
        self.node_name = node_name
        self.timeouts = timeouts
        """The timeout in seconds by plugin, from the start of the wait."""
        self._outcome: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        loop = asyncio.get_running_loop()
        self._timers = {
            plugin: loop.call_later(seconds, self._time_out, plugin, seconds)
            for plugin, seconds in timeouts.items()
        }

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed the pod yet."""
        return list(self._timers)

    def seconds_left(self) -> dict[str, float]:
        """Return for how many more seconds the pod waits, by plugin that has not allowed it yet."""
        now = asyncio.get_running_loop().time()
        return {plugin: timer.when() - now for plugin, timer in self._timers.items()}

    def allow(self, plugin: str) -> None:
        """Record that one plugin allows the pod; plugins that did not make it wait are ignored."""
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._end(SUCCESS)

    def reject(self, plugin: str, message: str) -> None:
        """End the wait with a rejection; has no effect once it has ended."""
        self._end(Status.unschedulable(message).by(plugin))

    async def outcome(self) -> Status:
        """Wait for Success or the rejection."""
        return await asyncio.shield(self._outcome)

    def _time_out(self, plugin: str, seconds: float) -> None:
        waited = duration.format(int(seconds * duration.SECOND))
        self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    def _end(self, status: Status) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if not self._outcome.done():
            self._outcome.set_result(status)


class WaitingPods:
    """All waiting pods of a process, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}
        self._on_preempt: list[Callable[[str], bool]] = []

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> WaitingPod | None:
        """Return a waiting pod."""
        return self._pods.get(uid)

    def add(self, pod: Pod, node_name: str, timeouts: Mapping[str, float]) -> WaitingPod:
        """Add a waiting pod with the plugins' timeouts (seconds), until it is removed."""
        waiting = self._pods[pod.metadata.uid] = WaitingPod(pod, node_name, timeouts)
        return waiting

    def remove(self, waiting: WaitingPod) -> None:
        """Remove a pod that no longer waits; another wait of the same pod stays."""
        uid = waiting.pod.metadata.uid
        if self._pods.get(uid) is waiting:
            del self._pods[uid]

    def reject(self, uid: str, message: str = "removed") -> bool:
        """Reject a pod without naming a plugin; return whether it was waiting."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return False
        waiting.reject("", message)
        return True

    def on_preempt(self, handler: Callable[[str], bool]) -> None:
        """Let a handler release what is held for a pod, by UID, and return whether anything was."""
        self._on_preempt.append(handler)

    def preempt(self, uid: str, plugin: str) -> bool:
        """Take its node from a pod that waits, or is not being bound yet; return whether it had one.

        Such a pod runs nowhere and need not be deleted: it is scheduled again.
        """
        waiting = self._pods.get(uid)
        if waiting is None:
            return any(handler(uid) for handler in self._on_preempt)
        waiting.reject(plugin, "preempted")
        return True
