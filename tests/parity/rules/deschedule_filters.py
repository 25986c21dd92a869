"""Filters and arbitration of the migration controller: `koordpy_plugins.descheduling.migrationcontroller`.

The plugin is made as in a descheduler; the arbitrator writes to an API server that only stores.
"""

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

from koordpy.api.config_model import ConfigError
from koordpy.api.core import (
    Deployment,
    Node,
    Pod,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from koordpy.api.kruise import AdvancedStatefulSet, CloneSet
from koordpy.api.meta import OwnerReference
from koordpy.api.pod_migration_job import PodMigrationJob
from koordpy.api.scheme import decode
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.interface import Handle, NoPlugins
from koordpy.descheduling.toolkit.controller_finder import ControllerFinder
from koordpy.descheduling.toolkit.scales import Scale, Unresolved
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.descheduling.migrationcontroller.arbitrator import Arbitrator, Verdict
from koordpy_plugins.descheduling.migrationcontroller.args import MigrationControllerArgs
from koordpy_plugins.descheduling.migrationcontroller.filters import MigrationFilters
from koordpy_plugins.descheduling.migrationcontroller.jobs import MigrationJobs
from koordpy_plugins.descheduling.migrationcontroller.plugin import MigrationController

from .softeviction_migrationjob import Server

_RUNNER = asyncio.Runner()

_WORKLOADS: Final[dict[tuple[str, str], type[Any]]] = {
    ("v1", "ReplicationController"): ReplicationController,
    ("apps/v1", "Deployment"): Deployment,
    ("apps/v1", "ReplicaSet"): ReplicaSet,
    ("apps/v1", "StatefulSet"): StatefulSet,
    ("apps.kruise.io/v1alpha1", "CloneSet"): CloneSet,
    ("apps.kruise.io/v1beta1", "StatefulSet"): AdvancedStatefulSet,
}


class NoScales:
    """An API server on which batch Jobs have no scale, and other kinds do not exist."""

    def get(self, owner: OwnerReference, namespace: str) -> Scale | None:
        if (owner.api_version, owner.kind) == ("batch/v1", "Job"):
            return None
        raise Unresolved(f"no matches for kind {owner.kind}")

    async def run(self) -> None:
        """Everything is known."""


def run(case: dict[str, Any], tag: str | None) -> object:
    return _RUNNER.run(_run(case))


async def _run(case: dict[str, Any]) -> object:
    clock = FakeClock(datetime(2024, 1, 1, 1, tzinfo=UTC))
    cluster = Cluster(clock)
    for node in case["nodes"]:
        cluster.store(Node).apply(decode(Node, node))
    for workload in case["workloads"]:
        type_ = _WORKLOADS[workload["apiVersion"], workload["kind"]]
        cluster.store(type_).apply(decode(type_, workload))
    server = Server(cluster)
    handle = Handle(
        cluster=cluster,
        client=Client(server, attempts=1),  # type: ignore[arg-type]
        events=None,
        clock=clock,
        evictor=None,  # type: ignore[arg-type]
        dry_run=False,
        report=lambda _: None,
        gates=FeatureGates(MigrationController.feature_gates),
        plugins=NoPlugins(),
        run_while_leading=lambda name, task: None,
    )
    try:
        args = MigrationController.read_args(case["args"], "args")
    except ConfigError:
        return {"invalid": True}
    assert isinstance(args, MigrationControllerArgs)
    try:
        plugin = MigrationController(args, handle)
    except ValueError:
        return {"constructionFails": True}
    jobs = MigrationJobs(handle)
    filters = MigrationFilters(args, cluster, jobs, ControllerFinder(cluster, NoScales()))
    arbitrator = Arbitrator(args, handle, jobs, filters)
    for pod in case["pods"]:
        server.put("pods", pod)
    for job in case["jobs"]:
        server.put("podmigrationjobs", job)
    known = {job.metadata.name: job for job in cluster.store(PodMigrationJob)}
    for name in case["passedInMemory"]:
        jobs.mark_passed(known[name])
    arbitrator.waiting = {known[name].metadata.uid: name for name in case["waiting"]}
    return {
        "filters": {
            pod.metadata.key: {
                "existingJobOK": filters.existing_job(pod) is None,
                "schedulerOK": filters.scheduler(pod) is None,
                "nonRetryable": filters.non_retryable(pod) is None,
                "retryable": filters.retryable(pod) is None,
                "filter": filters.reason_against(pod) is None,
                "preEvictionFilter": plugin.pre_eviction_filter(pod),
            }
            for pod in cluster.store(Pod)
        },
        "order": [job.metadata.name for job, _ in arbitrator.candidates()],
        "passes": [await _pass(arbitrator, cluster) for _ in range(case["passes"])],
    }


async def _pass(arbitrator: Arbitrator, cluster: Cluster) -> dict[str, Any]:
    decisions = []
    for name, verdict in await arbitrator.arbitrate():
        decision = [name, str(verdict)]
        if verdict is Verdict.FAILED:
            job = cluster.store(PodMigrationJob).get("", name)
            assert job is not None
            decision.append(job.status.message)
        decisions.append(decision)
    return {"decisions": decisions, "waiting": sorted(arbitrator.waiting.values())}
