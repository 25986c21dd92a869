"""Evicts pods through the eviction subresource, so that PodDisruptionBudgets are respected.

Source: Koordinator, `pkg/descheduler/evictions/evictions.go`.
"""

import logging

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound, TooManyRequests
from koordpy.cluster.events import Recorder
from koordpy.descheduling.interface import EvictOptions, Refusal
from koordpy.descheduling.metrics import PODS_EVICTED

log = logging.getLogger(__name__)


class PodEvictor:
    """Evicts, counts and writes events."""

    def __init__(self, client: Client, events: Recorder | None) -> None:
        self._client, self._events = client, events

    async def evict(self, pod: Pod, options: EvictOptions) -> bool | Refusal:
        """Evict a pod; return true if the API server accepted, else the reason.

        Errors are logged and counted, not raised.
        """
        key = pod.metadata.key
        try:
            await self._client.evict(
                pod,
                grace_period_seconds=options.grace_period_seconds,
                delete_options=options.delete_options,
            )
        except TooManyRequests as error:
            return self._refused(pod, options, f'error when evicting pod (ignoring) "{key}": {error}')
        except NotFound as error:
            return self._refused(pod, options, f'pod not found when evicting "{key}": {error}')
        except (ApiError, ConnectionFailed) as error:
            return self._refused(pod, options, f'evicting pod "{key}": {error}')
        log.info("%s: evicted pod %s: %s", options.plugin_name, key, options.reason)
        self._count(pod, options, "success")
        if self._events is not None:
            self._events.event(
                pod,
                "Normal",
                "Descheduled",
                f"pod evicted by {options.reason or options.plugin_name}",
                action="Evicting",
            )
        return True

    def _refused(self, pod: Pod, options: EvictOptions, message: str) -> Refusal:
        log.error("%s", message)
        self._count(pod, options, "error")
        return Refusal(message)

    @staticmethod
    def _count(pod: Pod, options: EvictOptions, result: str) -> None:
        PODS_EVICTED.labels(result, options.plugin_name, pod.metadata.namespace, pod.spec.node_name).inc()
