"""Pods with higher priority first, then those queued earlier.

Source: Kubernetes, `framework/plugins/queuesort`.
"""

from koordpy.scheduling.interface import Plugin, QueuedPod, QueueSort


class PrioritySort(Plugin, QueueSort):
    """kube-scheduler's order."""

    name = "PrioritySort"

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        """Compare priorities, then the time in the queue."""
        mine, other = first.pod.spec.priority or 0, second.pod.spec.priority or 0
        return mine > other or (mine == other and first.queued_at < second.queued_at)
