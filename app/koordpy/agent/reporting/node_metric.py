"""The reporter of the node's NodeMetric: what the controllers and schedulers know of the node's usage.

The central controller creates the object and writes its spec, the collect policy; the reporter replaces its
status at the interval of that policy, and never creates it. Source: Koordinator,
`pkg/koordlet/statesinformer/impl/states_nodemetric.go`.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

from koordpy.agent.interface.flags import FlagSet
from koordpy.agent.interface.gates import NODE_METRIC_PROM_METRICS
from koordpy.agent.interface.metrics import Metrics
from koordpy.agent.interface.states import States
from koordpy.agent.prediction.predictors import Predictor
from koordpy.agent.toolkit import collect_policy
from koordpy.agent.toolkit.collect_policy import CollectPolicy
from koordpy.api.core import Node
from koordpy.api.koordinator import NodeMetric
from koordpy.api.needs import Right
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, Conflict, NotFound
from koordpy.cluster.retry import retried
from koordpy.cluster.selector import Selector
from koordpy.lib.clock import Clock
from koordpy.lib.feature_gates import FeatureGates
from koordpy.lib.token_bucket import TokenBucket

from .node_metric_gauges import record_reclaimable, record_usage
from .node_metric_status import StatusBuilder

log = logging.getLogger(__name__)

ENABLED: Final = "enable-node-metric-report"
RIGHTS: Final = (Right("update", "nodemetrics/status", "slo.koordinator.sh"),)

_UPDATES_PER_SECOND: Final = 0.1
_UPDATES_BURST: Final = 2


class UpdateLimitedError(Exception):
    """Too many updates in a short time; the report is dropped."""


class NodeMetricReporter:
    """Reports the node's usage, as a service of the node agent."""

    name = "node-metric"

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare koordlet's flags."""
        flags.declare(ENABLED, True, "Report the usage of the node and its pods in the node's NodeMetric.")

    def __init__(
        self,
        states: States,
        metrics: Metrics,
        predictor: Callable[[Node | None], Predictor],
        *,
        cluster: Cluster,
        client: Client | None,
        flags: FlagSet,
        gates: FeatureGates,
        clock: Clock,
        rng: random.Random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Request the store of the node's NodeMetric. Without a client nothing is reported."""
        self._states, self._metrics, self._predictor = states, metrics, predictor
        self._client, self._gates, self._clock, self._rng, self._sleep = client, gates, clock, rng, sleep
        self.enabled = flags.boolean(ENABLED)
        selector = Selector(fields=f"metadata.name={states.node_name}")
        self._store = cluster.store(NodeMetric, selector=selector, optional=True)
        self._limiter = TokenBucket(_UPDATES_PER_SECOND, _UPDATES_BURST, clock)
        self.reported = 0
        """How many reports the API server took."""

    async def run(self) -> None:
        """Report at the interval of the collect policy, first after one interval, until cancelled."""
        if not self.enabled:
            log.info("NodeMetric is not reported: --%s is off", ENABLED)
            await asyncio.Event().wait()
        while True:
            await self._sleep(self.policy.interval_seconds)
            await self.report()

    def not_ready(self) -> str | None:
        """Return why the collect policy is not known yet; None if it is, or nothing is reported."""
        return "NodeMetrics are not listed yet" if self.enabled and not self._store.synced else None

    @property
    def policy(self) -> CollectPolicy:
        """The collect policy of the NodeMetric, or the default one as long as there is none."""
        metric = self._node_metric()
        return collect_policy.completed(metric.spec if metric is not None else None)

    async def report(self) -> bool:
        """Write the status once; return whether it was taken. Errors of the API server are logged."""
        if self._node_metric() is None:
            log.warning("NodeMetric %s does not exist, nothing is reported", self._states.node_name)
            return False
        status = self.status()
        try:
            taken = await retried(
                lambda: self._update(status), rng=self._rng, sleep=self._sleep, on=(Conflict,)
            )
        except (ApiError, UpdateLimitedError) as error:
            log.warning("NodeMetric %s is not updated: %s", self._states.node_name, error)
            return False
        self.reported += taken
        return taken

    def status(self) -> dict[str, Any]:
        """Return the status as it would be reported now."""
        slo = self._states.node_slo()
        pods = sorted(self._states.pods(), key=lambda meta: meta.pod.metadata.key)
        status = StatusBuilder(self._metrics, self.policy, self._clock.now()).build(
            pods,
            slo.host_applications if slo is not None else [],
            self._predictor(self._states.node()),
        )
        record_reclaimable(self._states.node_name, status)
        if self._gates.enabled(NODE_METRIC_PROM_METRICS):
            record_usage(self._states.node_name, status)
        return status

    def _node_metric(self) -> NodeMetric | None:
        return self._store.get("", self._states.node_name)

    async def _update(self, status: dict[str, Any]) -> bool:
        metric = self._node_metric()
        if metric is None or self._client is None:
            return False
        if not self._limiter.take():
            raise UpdateLimitedError(
                f"updating status is limited qps={_UPDATES_PER_SECOND} burst={_UPDATES_BURST}"
            )
        resource = resource_of(NodeMetric)
        document = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                "name": metric.metadata.name,
                "uid": metric.metadata.uid,
                "resourceVersion": metric.metadata.resource_version,
            },
            "status": status,
        }
        try:
            await self._client.update_raw(resource, "", metric.metadata.name, document, subresource="status")
        except NotFound:
            return False
        return True
