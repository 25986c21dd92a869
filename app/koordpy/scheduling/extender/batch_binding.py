"""Binds all pods of a planned job at once, without waiting for kube-scheduler to come to each of them.

With Koordinator's gate `EnableInlineBatchSchedule`, koordpy makes the bind calls itself as soon as a job is
planned: kube-scheduler tries one pod of a gang, and sees the others on their nodes before it comes to them.
All of them pass Permit together or not at all; after that each is bound by itself, and one that cannot be
bound is retried alone, as in Koordinator (`pkg/scheduler/batch`).

A job with a pod whose volumes or claims only kube-scheduler can bind is left to kube-scheduler's calls.
"""

import asyncio
import logging
import time
from collections.abc import Mapping

from koordpy.api.core import Pod
from koordpy.cluster.events import NORMAL
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.metrics import (
    BATCH_BIND_FAILURES,
    BATCH_DURATION,
    BATCH_PARTIAL_JOBS,
    BATCH_PARTIAL_PODS,
    counter,
    histogram,
)
from koordpy.scheduling.gangs.held import HeldPlan
from koordpy.scheduling.interface.gates import INLINE_BATCH_SCHEDULE
from koordpy.scheduling.interface.handle import Handle

from .bind_cycle import BindCycle
from .node_choice import needs_kube_scheduler
from .wire import BindingArgs

log = logging.getLogger(__name__)


class BatchBinding:
    """Makes the bind calls of planned jobs."""

    def __init__(self, binds: BindCycle, handle: Handle) -> None:
        self._binds, self._handle = binds, handle

    def begin(self, framework: Framework, plan: HeldPlan) -> None:
        """Bind the pods of a plan that was just made, if the gate is on."""
        pods = [placement.pod for placement in plan.placements.values()]
        if not framework.handle.gates.enabled(INLINE_BATCH_SCHEDULE) or any(map(needs_kube_scheduler, pods)):
            return
        nodes = {uid: placement.node_name for uid, placement in plan.placements.items()}
        self._handle.spawn(self._bind(framework, plan.job.id, pods, nodes))

    async def _bind(self, framework: Framework, job: str, pods: list[Pod], nodes: Mapping[str, str]) -> None:
        began = time.perf_counter()
        calls = [self._binds.bind(_args(pod, nodes[pod.metadata.uid]), None) for pod in pods]
        errors = await asyncio.gather(*calls)
        failed = [(pod, error) for pod, error in zip(pods, errors, strict=True) if error]
        for pod, error in failed:
            counter(BATCH_BIND_FAILURES, "bind_error", "Bind").inc()
            log.warning("%s: pod %s could not be bound: %s", job, pod.metadata.key, error)
        result = "success" if not failed else "failure" if len(failed) == len(pods) else "partial"
        histogram(BATCH_DURATION, result).observe(time.perf_counter() - began)
        if result == "partial":
            counter(BATCH_PARTIAL_JOBS).inc()
            counter(BATCH_PARTIAL_PODS, "failure").inc(len(failed))
            counter(BATCH_PARTIAL_PODS, "success").inc(len(pods) - len(failed))
        unbound = {pod.metadata.uid for pod, _ in failed}
        for pod in pods:
            if pod.metadata.uid not in unbound:
                self._report(framework, pod, nodes[pod.metadata.uid])

    def _report(self, framework: Framework, pod: Pod, node_name: str) -> None:
        """Write the event that kube-scheduler writes for pods it binds."""
        recorder = framework.handle.events
        if recorder is not None:
            note = f"Successfully assigned {pod.metadata.key} to {node_name}"
            recorder.event(pod, NORMAL, "Scheduled", note, action="Binding")


def _args(pod: Pod, node_name: str) -> BindingArgs:
    meta = pod.metadata
    return BindingArgs(meta.name, meta.namespace, meta.uid, node_name)
