"""What carries out the PodMigrationJobs of a cluster: one for all profiles of a descheduler.

Koordinator allows MigrationController in one profile only. Here several may have it, with equal arguments,
because limits and arbitration are about all jobs of the cluster.
"""

import uuid
from collections.abc import Callable
from typing import Final

from koordpy.descheduling.interface import Handle
from koordpy.descheduling.toolkit.controller_finder import ControllerFinder
from koordpy.descheduling.toolkit.scales import Scales

from .arbitrator import Arbitrator
from .args import MigrationControllerArgs
from .cleanup import Cleanup
from .eviction_rate import eviction_rate
from .eviction_requests import GATE as EVICTION_REQUESTS
from .eviction_requests import EvictionRequests
from .evictions import PodEvictions, Policy
from .execution import JobExecution
from .filters import MigrationFilters
from .jobs import MigrationJobs
from .object_limiter import ObjectLimiters
from .reconciler import Reconciler

WITHOUT_CLAIMS: Final = "DisablePVCReservation"
"""Koordinator's gate that leaves volumes with claims out of the Reservations of migrations."""


class Controller:
    """The parts of the migration controller, and the loops that run while this process leads.

    Without an API server, and in a dry run, nothing is written and no loop runs. Raises ValueError for an
    unknown eviction policy.
    """

    def __init__(
        self,
        args: MigrationControllerArgs,
        handle: Handle,
        new_name: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.args, self.new_name = args, new_name
        self.identity = handle.identity or new_name()
        """Marks the jobs that this controller creates; the next leader carries them on."""
        self.finder = ControllerFinder(handle.cluster, Scales(handle.client, handle.clock))
        self.jobs = MigrationJobs(handle)
        self.filters = MigrationFilters(args, handle.cluster, self.jobs, self.finder)
        self.limiters = ObjectLimiters(args, self.finder.expected_scale, handle.clock)
        policy = _policy(args, requests=_is_on(handle, EVICTION_REQUESTS))
        if handle.client is None or handle.dry_run:
            return
        execution = self._execution(args, handle, policy)
        arbitrator = Arbitrator(args, handle, self.jobs, self.filters, execution.wake)
        handle.run_while_leading("migration-arbitrator", arbitrator.run)
        handle.run_while_leading("podmigrationjobs", execution.run)
        handle.run_while_leading("workload-scales", self.finder.run)

    def _execution(self, args: MigrationControllerArgs, handle: Handle, policy: Policy) -> JobExecution:
        cluster, client, events, clock = handle.cluster, handle.client, handle.events, handle.clock
        assert client is not None
        requests = EvictionRequests(client) if _is_on(handle, EVICTION_REQUESTS) else None
        evictions = PodEvictions(
            client, events, clock, default=policy, rate=eviction_rate(args, clock), requests=requests
        )
        reconciler = Reconciler(
            cluster,
            client,
            events,
            clock,
            evictor=evictions,
            limiter=self.limiters,
            identity=self.identity,
            default_mode=args.default_job_mode,
            default_delete_options=args.default_deletion,
            keep_claims=not _is_on(handle, WITHOUT_CLAIMS),
        )
        cleanup = Cleanup(cluster, client, clock, reconciler, requests)
        return JobExecution(
            cluster,
            clock,
            reconciler,
            cleanup,
            workers=args.max_concurrent_reconciles,
            may_start=self.jobs.has_passed,
            obstacles=self.jobs.obstacles,
        )


def _is_on(handle: Handle, gate: str) -> bool:
    return gate in handle.gates and handle.gates.enabled(gate)


def _policy(args: MigrationControllerArgs, *, requests: bool) -> Policy:
    known = [policy for policy in Policy if requests or policy is not Policy.EVICTION_REQUEST]
    if args.eviction_policy not in known:
        raise ValueError(
            f"unsupported eviction policy: evictionPolicy is {args.eviction_policy!r}, expected one of "
            f"{', '.join(known)}"
        )
    return Policy(args.eviction_policy)
