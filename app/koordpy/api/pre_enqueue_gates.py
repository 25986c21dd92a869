"""Scheduling gates that stand for PreEnqueue plugins, one per plugin.

kube-scheduler runs no plugin of an extender before it queues a pod, but it does not schedule pods with
scheduling gates. So admission gives a new pod a gate for each PreEnqueue plugin that may reject it, and the
gate is removed once the plugin no longer rejects it.
"""

from collections.abc import Iterator
from typing import Final

from .core import Pod

PREFIX: Final = "pre-enqueue.koordpy.dev/"

NOT_READY: Final = "NotReadyForScheduling"
"""The reason in the PodScheduled condition of a pod that a PreEnqueue plugin rejects (KEP-5501)."""


def gate_of(plugin: str) -> str:
    """Return the name of a plugin's gate."""
    return f"{PREFIX}{plugin}"


def plugins_of(pod: Pod) -> Iterator[str]:
    """Yield the plugins whose gates a pod has."""
    for gate in pod.spec.scheduling_gates:
        if gate.name.startswith(PREFIX):
            yield gate.name.removeprefix(PREFIX)
