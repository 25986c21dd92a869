"""Runs one scenario under one scheduler."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from koordpy.api.config_model import ConfigError
from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota, NodeSLO
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.informers import Informers
from koordpy.embedded.kubelet.koordlets import Koordlets
from koordpy.embedded.kubelet.pods import PodKubelets
from koordpy.embedded.kubelet.usage import Usage
from koordpy.lib import simulated_time
from koordpy.lib.clock import Clock
from koordpy.lib.simulated_time import SimulatedClock, SimulatedLoop

from . import plan as planning
from . import quotas, slo_controllers
from .deployments import Deployments
from .enforcement import Enforcement
from .errors import LoggedErrors
from .fleet import Fleet
from .gangs import GangJournal, minimums
from .journal import Incarnation, Journal
from .plane import ControlPlane
from .planned import Document, Plan
from .result import PodOutcome, Pods, Result, Spread
from .runtime import ScenarioRuntime
from .sampler import Sampler
from .scenario import Scenario
from .setup import SchedulerSetup, Source
from .sources import read_source
from .workloads import Workloads

log = logging.getLogger(__name__)

SAMPLES = 400
"""The default number of measurements."""

_SETTLING = 600.0
"""How long pending pods are waited for when nothing else happens any more."""
_MOST_PROBLEMS = 20

Progress = Callable[[float, float], None]
"""Called occasionally with the progress: simulated seconds, and their estimated total."""


Beside = Callable[[Client, Clock], Coroutine[Any, Any, None]]
"""Runs beside a simulation, as a client of its API server."""


def simulate(
    scenario: Scenario,
    setup: SchedulerSetup,
    folder: Path,
    *,
    progress: Progress | None = None,
    beside: Beside | None = None,
) -> Result:
    """Run a scenario under one scheduler. Files that it names are in `folder`.

    `beside` is cancelled at the end; an error of it ends the simulation.

    Raises ConfigError for a scenario or a configuration that cannot run, ApiError for nodes that the API
    server refuses.
    """
    plan = planning.of(scenario, folder)

    async def program(loop: SimulatedLoop) -> Result:
        return await _Run(scenario, setup, folder, plan, loop).run(progress, beside)

    return simulated_time.run(program)


class _Run:
    def __init__(
        self, scenario: Scenario, setup: SchedulerSetup, folder: Path, plan: Plan, loop: SimulatedLoop
    ) -> None:
        self._scenario, self._setup, self._folder, self._plan = scenario, setup, folder, plan
        self._clock = SimulatedClock(loop, scenario.start)
        self._journal = Journal(repeated_within=scenario.sampling.repeated_within)
        self._usage = Usage()
        for node in plan.nodes:
            self._usage.add(node.name, node.capacity, node.system)

    async def run(self, progress: Progress | None, beside: Beside | None) -> Result:
        began = time.perf_counter()
        scenario = self._scenario
        async with AsyncExitStack() as stack:
            self._errors = stack.enter_context(LoggedErrors())
            standing = [document for source in self._setup.objects for document in self._objects(source)]
            objects = [*standing, *(planned.document for planned in self._plan.objects)]
            self._journal.gangs = GangJournal(minimums(objects))
            self._notes = slo_controllers.notes(self._setup, objects, self._plan)
            controllers = slo_controllers.selection(self._setup, objects)
            plane = await stack.enter_async_context(
                ControlPlane(self._setup, controllers, self._folder, self._clock, scenario.seed)
            )
            cluster = plane.scheduler.cluster
            deployments = Deployments(
                self._plan.deployments, plane, self._clock, self._journal, scenario.seed
            )
            self._workloads = Workloads(
                self._plan, deployments, plane, self._clock, self._journal, scenario.seed
            )
            stack.push_async_callback(self._workloads.stop)
            pods = cluster.store(Pod)
            stack.push_async_callback(deployments.stop)
            await deployments.start(pods)
            runtime = ScenarioRuntime(
                plane.client, self._clock, self._journal, self._usage, self._workloads.gone
            )
            stack.push_async_callback(runtime.close)
            self._kubelets = PodKubelets(pods, plane.client, self._clock, runtime)
            runtime.follow(pods)
            policies = Cluster(self._clock)
            self._policies = Informers(policies, plane.client)
            self._enforcement = Enforcement(
                self._usage,
                policies.store(NodeSLO),
                pods,
                plane.client,
                self._clock,
                self._setup.agent.feature_gates,
                interval=scenario.usage.interval,
            )
            self._usage.limits = self._enforcement
            reports = scenario.usage
            self._koordlets = Koordlets(
                self._usage,
                pods,
                plane.client,
                self._clock,
                interval=reports.interval,
                refresh=reports.refresh,
                aggregate=reports.aggregate,
            )
            self._fleet = Fleet(
                self._plan,
                plane,
                self._clock,
                self._journal,
                self._usage,
                self._workloads,
                self._koordlets,
                standing,
            )
            self._sampler = Sampler(
                self._interval(),
                scenario.sampling.hot,
                plane.scheduler.cluster.nodes,
                self._usage,
                self._journal,
                self._enforcement,
                policies.store(ElasticQuota) if quotas.are_among(objects) else (),
                self._clock,
            )
            await stack.enter_async_context(self._policies)
            await self._fleet.begin()
            if scenario.usage.enabled:
                await self._koordlets.report(self._clock.monotonic())
            await self._live(progress, [] if beside is None else [beside(plane.client, self._clock)])
            self._sampler.sample()
        return self._result(time.perf_counter() - began)

    async def _live(self, progress: Progress | None, besides: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Run until the scenario is over. An error ends it."""
        works = [
            self._kubelets.run(),
            self._fleet.run(),
            self._workloads.run(),
            self._sampler.run(),
            self._enforcement.run(),
            *besides,
        ]
        if self._scenario.usage.enabled:
            works.append(self._koordlets.run())
        tasks = {asyncio.create_task(work) for work in works}
        end = asyncio.create_task(self._end(progress))
        try:
            while not end.done():
                done, _ = await asyncio.wait({end, *tasks}, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
                tasks -= done
            end.result()
        finally:
            for task in (end, *tasks):
                task.cancel()
            await asyncio.gather(end, *tasks, return_exceptions=True)

    async def _end(self, progress: Progress | None) -> None:
        """Return when the scenario is over."""
        horizon = self._horizon()
        step = horizon / 100
        quiet_since: float | None = None
        while True:
            now = self._clock.monotonic()
            if progress is not None:
                progress(now, horizon)
            if self._scenario.duration is not None:
                if now >= horizon - 1e-6:
                    return
                await asyncio.sleep(min(step, horizon - now))
                continue
            if self._workloads.is_over and not self._journal.running:
                quiet_since = now if quiet_since is None else quiet_since
                if not self._journal.alive or now - quiet_since >= _SETTLING:
                    return
            else:
                quiet_since = None
            await asyncio.sleep(min(step, 60.0) if self._workloads.is_over else step)

    def _horizon(self) -> float:
        """Return the estimated end."""
        if self._scenario.duration is not None:
            return self._scenario.duration
        return max((pod.arrival + (pod.duration or 0.0) for pod in self._plan.pods), default=0.0) + 60.0

    def _interval(self) -> float:
        return self._scenario.sampling.interval or max(self._horizon() / SAMPLES, 1.0)

    def _objects(self, source: Source) -> list[Document]:
        try:
            return read_source(source, self._folder)
        except ConfigError as error:
            raise error.under(f"scheduler {self._setup.name!r}: objects") from None

    # --- results ---------------------------------------------------------------------------------

    def _result(self, wall: float) -> Result:
        journal, end = self._journal, self._clock.monotonic()
        placed = [pod for pod in journal.pods if pod.bound is not None]
        per_node = Counter(pod.node for pod in placed)
        outcomes = Counter(pod.outcome for pod in journal.pods if pod.ended is not None)
        by_workload: dict[str, list[Incarnation]] = {}
        for pod in journal.pods:
            by_workload.setdefault(pod.planned.workload, []).append(pod)
        refused = [f"pod {key}: {why}" for key, why in journal.refused]
        return Result(
            scenario=self._scenario.name,
            scheduler=self._setup.name,
            seed=self._scenario.seed,
            simulated_seconds=end,
            wall_seconds=wall,
            nodes=len(self._plan.nodes),
            pods=Pods(
                created=len(journal.pods),
                bound=len(placed),
                finished=outcomes["finished"],
                evicted=journal.evictions,
                evicted_repeatedly=journal.repeated,
                refused=len(refused),
                pending_at_end=journal.pending,
                running_at_end=journal.running,
            ),
            pending_seconds=Spread.of([_waited(pod, end) for pod in journal.pods]),
            pending_seconds_of={
                name: Spread.of([_waited(pod, end) for pod in pods]) for name, pods in by_workload.items()
            },
            pods_per_node=Spread.of([per_node[node.name] for node in self._plan.nodes]),
            nodes_used=len(per_node),
            resources=self._sampler.resources(),
            hot=self._sampler.hot(),
            colocation=self._sampler.colocation(),
            gangs=journal.gangs.result(end),
            quotas=self._sampler.quotas.result(),
            reports=self._koordlets.reported,
            series=self._sampler.series,
            placements=[
                PodOutcome(
                    f"{pod.namespace}/{pod.name}",
                    pod.planned.workload,
                    pod.created,
                    pod.bound,
                    pod.node,
                    pod.ended,
                    pod.outcome,
                    pod.planned.gang,
                )
                for pod in journal.pods
            ],
            notes=self._notes,
            problems=[*journal.problems, *refused, *self._errors.told][:_MOST_PROBLEMS],
        )


def _waited(pod: Incarnation, end: float) -> float:
    if pod.bound is not None:
        return pod.bound - pod.created
    return (end if pod.ended is None else pod.ended) - pod.created
