"""Admit a pod only if its requests do not exceed its quota, and charge the quota for it.

The scheduler-side quota controller recomputes the charge from the existing pods, which releases the charge of
a pod that was not created after all. A dry run is decided without charging.
Source: Koordinator, `pkg/webhook/pod/validating/evaluate_quota.go`.
"""

import asyncio
from typing import ClassVar, Final

from koordpy.admission.handler import CREATE, UPDATE, AsyncValidatingHandler, Errored, Handle, Request
from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.needs import Needs, Right
from koordpy.api.quota.info import DEFAULT, ROOT, SYSTEM
from koordpy.api.replace_resources import replaced
from koordpy.cluster.quota.membership import QuotaMembership
from koordpy.lib.queue_metrics import QueueMetrics

from .accessor import QuotaAccessor
from .account import requests_of
from .args import EvaluateQuotaArgs
from .evaluator import QUEUE, QuotaEvaluator

_UNLIMITED: Final = frozenset(("", DEFAULT, SYSTEM, ROOT))


class EvaluateQuotaPlugin(AsyncValidatingHandler):
    """The quota evaluation of pod admission."""

    name: ClassVar[str] = "EvaluateQuota"
    path: ClassVar[str] = "/validate-pod"
    feature: ClassVar[str | None] = "EnableQuotaAdmission"
    needs: ClassVar[Needs] = Needs(rights=(Right("patch", "elasticquotas", "scheduling.sigs.k8s.io"),))
    args: EvaluateQuotaArgs

    def __init__(self, args: EvaluateQuotaArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        gates = handle.gates
        self._on_update = gates.enabled("EnableQuotaAdmissionOnUpdate")
        self._replaces = gates.enabled("ElasticQuotaEvaluationTransformPod") and gates.enabled(
            "ReplaceResourcesTransformer"
        )
        self._membership = QuotaMembership(
            handle.cluster, label_only=handle.gates.enabled("DisableDefaultQuota")
        )
        self._quotas = handle.cluster.store(ElasticQuota)
        self._by_name = self._quotas.index(_names)
        self._evaluator = QuotaEvaluator(
            QuotaAccessor(
                self._quotas, handle.client, fresh_get=args.conflict_fresh_get, sleep=asyncio.sleep
            ),
            args,
            rng=handle.rng,
            metrics=QueueMetrics(QUEUE, handle.clock.monotonic),
        )

    async def validate(self, request: Request) -> None:
        """Charge the quota of a new pod, or of one that was moved to another quota; refuse an excess.

        The quota that a pod was moved from keeps its charge.
        """
        if request.operation != CREATE and not (request.operation == UPDATE and self._on_update):
            return
        pod = request.object(Pod)
        name = self._quota_of(pod)
        if name in _UNLIMITED:
            return
        if request.operation == UPDATE and name == self._quota_of(request.old_object(Pod)):
            return
        quotas = self._by_name.get(name)
        if not quotas:
            raise Errored(400, f"elastic quota {name} not found")
        if len(quotas) > 1:
            raise Errored(400, f"more than one elastic quota {name} found")
        if self._replaces:
            pod = replaced(pod)
            request.show(pod)
        requests = requests_of(pod, self.handle.clock.now())
        if request.dry_run:
            self._evaluator.check(quotas[0].metadata.key, requests)
        else:
            await self._evaluator.charge(quotas[0].metadata.key, requests)

    def _quota_of(self, pod: Pod) -> str:
        return self._membership.name_of(pod.metadata.labels, pod.metadata.namespace)


def _names(quota: ElasticQuota) -> tuple[str]:
    return (quota.metadata.name,)
