"""The descheduler: cycles over all profiles, at an interval or once.

In a cycle all Deschedule plugins of all profiles run before any Balance plugin. A plugin's failure is logged,
counted and recorded with the round. The other plugins of its profile at that point still run; then the cycle
ends, for the profiles after it and, in Deschedule, for all Balance plugins. (Profiles run in the order of the
file; in Koordinator it is random.) Source: Koordinator, `pkg/descheduler/descheduler.go` and
`pkg/descheduler/profile/profile.go`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

from koordpy.api import label_selector
from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.field_error import aggregate
from koordpy.api.meta import LabelSelector
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.descheduling.config.configuration import DeschedulerConfiguration
from koordpy.descheduling.explain.decisions import Decisions, Round
from koordpy.descheduling.explain.extracts import Verdict
from koordpy.descheduling.interface import Plugin
from koordpy.descheduling.metrics import LAST_ROUND, ROUND_SECONDS, ROUNDS
from koordpy.descheduling.proof.moved_pods import MovedPods
from koordpy.descheduling.proof.proving import Proofs
from koordpy.descheduling.proof.trial import TrialScheduler
from koordpy.descheduling.toolkit import nodes as node_selection
from koordpy.descheduling.toolkit.pods import NodePods
from koordpy.lib import duration, supervise
from koordpy.lib.feature_gates import FeatureGates

from .framework import Framework, Runtime, Tasks
from .limiter import EvictionLimiter

log = logging.getLogger(__name__)


class Descheduler:
    """All profiles of a configuration on one cluster.

    The constructor requests the needed stores from the cluster, so create it before the informers start.
    `client` may be None if nothing is ever written. `trials` is needed by profiles that prove evictions. The
    rounds of a `hypothetical` one are not counted by metrics.
    Raises ConfigError for a configuration that cannot run: a plugin that is not installed is named, with the
    installed ones.
    """

    def __init__(
        self,
        config: DeschedulerConfiguration,
        catalogue: Catalogue[Plugin],
        cluster: Cluster,
        client: Client | None = None,
        events: Recorder | None = None,
        *,
        decisions: Decisions | None = None,
        gates: FeatureGates | None = None,
        trials: TrialScheduler | None = None,
        hypothetical: bool = False,
    ) -> None:
        self.config = config
        self.decisions = decisions or Decisions()
        self.limiter = EvictionLimiter(
            self.config.max_no_of_pods_to_evict_per_node,
            self.config.max_no_of_pods_to_evict_per_namespace,
            self.config.max_no_of_pods_to_evict_total,
        )
        self._cluster, self._client = cluster, client
        self._hypothetical = hypothetical
        self._nodes = cluster.store(Node)
        self._pods = NodePods(cluster)
        self._tasks = Tasks()
        self._proofs = self._prepare_proofs(trials)
        runtime = Runtime(
            cluster,
            client,
            events,
            self.limiter,
            self.decisions,
            self.config.dry_run,
            self.config.descheduling_interval,
            gates or FeatureGates({}),
            self._tasks,
            f"{self.config.leader_election.resource_namespace}/{self.config.leader_election.resource_name}",
            self._proofs,
            copies_args=True,
            hypothetical=hypothetical,
        )
        self.frameworks = _frameworks(self.config, catalogue, runtime)

    def _prepare_proofs(self, trials: TrialScheduler | None) -> Proofs | None:
        """Return what the profiles that prove evictions share, None if there are none."""
        if not self.config.proves:
            return None
        if trials is None:
            raise ConfigError("proof is enabled, but nothing here can try to schedule pods")
        longest = max(profile.proof.window for profile in self.config.profiles if profile.proof is not None)
        moved = MovedPods(self._cluster, timedelta(microseconds=longest / 1000))
        if self._client is not None and self.config.descheduling_interval > 0 and not self.config.dry_run:
            self._tasks.add("moved pods", partial(moved.write_annotations, self._client))
        return Proofs(trials, moved, counted=not self._hypothetical)

    @property
    def completed(self) -> DeschedulerConfiguration:
        """The configuration with the arguments that the plugins have, as they are in effect."""
        profiles = [framework.completed_profile for framework in self.frameworks]
        return self.config.model_copy(update={"profiles": profiles})

    @property
    def ends(self) -> bool:
        """Whether there is one cycle only, and no plugin has work that goes on after it."""
        return self.config.descheduling_interval <= 0 and not self._tasks

    async def serve(self) -> None:
        """Run as long as this process is the leader: cycles, and the loops of plugins, all supervised."""
        async with asyncio.TaskGroup() as group:
            if self._tasks:
                group.create_task(self._tasks.run())
            if self.config.descheduling_interval > 0:
                group.create_task(supervise.forever("descheduler", self.run))
            else:
                await self.run()

    async def run(self, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Run a cycle at once and then every interval, counted from start to start; without one, run once.

        A cycle that takes longer than the interval is immediately followed by the next one.
        """
        clock = self._cluster.clock
        interval = self.config.descheduling_interval / duration.SECOND
        while True:
            started = clock.monotonic()
            await self.run_once()
            if interval <= 0:
                return
            await sleep(max(0.0, interval - (clock.monotonic() - started)))

    async def run_once(self) -> Round:
        """Run one cycle; return its record. Errors are logged and recorded, never raised."""
        clock = self._cluster.clock
        current = self.decisions.begin(clock.now(), dry_run=self.config.dry_run)
        began = clock.monotonic()
        errors = await self._cycle(current)
        if errors:
            current.error = aggregate(errors)
        if not self._hypothetical:
            if errors:
                log.error("Error descheduling pods: %s", current.error)
            ROUNDS.labels("error" if errors else "ok").inc()
            ROUND_SECONDS.observe(clock.monotonic() - began)
            LAST_ROUND.set(clock.now().timestamp())
        self.decisions.end(current, clock.now())
        return current

    def node(self, name: str) -> Node | None:
        """Return a node, ready or not; None if it does not exist."""
        return self._nodes.get("", name)

    def pod(self, key: str) -> Pod | None:
        """Return a pod by NAMESPACE/NAME; None if it does not exist."""
        return self._cluster.store(Pod).by_key(key)

    def pods_of(self, node_name: str) -> list[Pod]:
        """Return the pods of a node that have neither succeeded nor failed, by namespace and name."""
        return self._pods.active_on(node_name)

    def profiles_of(self, node: Node) -> list[str]:
        """Return the names of the profiles that select a node."""
        return [framework.profile.name for framework in self.frameworks if framework.nodes_of([node])]

    def verdicts(self, pod: Pod) -> list[Verdict]:
        """Return what the filter plugins of each profile that selects a pod's node say about evicting it.

        About a pod that waits for a node those of all profiles are asked: a migration may be about it, too.
        """
        if not pod.spec.node_name:
            return [framework.verdict(pod) for framework in self.frameworks]
        node = self._nodes.get("", pod.spec.node_name)
        if node is None:
            return []
        return [framework.verdict(pod) for framework in self.frameworks if framework.nodes_of([node])]

    async def _cycle(self, current: Round) -> list[str]:
        try:
            nodes = await self._ready_nodes()
        except Exception as error:  # the API server may be unavailable; the next cycle retries
            return [f"unable to get ready nodes: {error}"]
        current.nodes = len(nodes)
        if len(nodes) <= 1:
            return [
                f"cluster size is 0 or 1 ({len(nodes)} ready nodes): evicted pods would find no other node"
            ]
        self.limiter.reset()
        if self._proofs is not None:
            self._proofs.begin()
        steps = [(each, each.run_deschedule_plugins) for each in self.frameworks]
        steps += [(each, each.run_balance_plugins) for each in self.frameworks]
        for framework, run_plugins in steps:
            if framework.selector_error:
                return [f"profile {framework.profile.name}: invalid nodeSelector: {framework.selector_error}"]
            if not (await run_plugins(framework.nodes_of(nodes))).is_success:
                break
        return [run.error for run in current.runs if run.error]

    async def _ready_nodes(self) -> list[Node]:
        found = node_selection.selected(self._nodes, self.config.node_selector)
        if not found and self._client is not None:
            found = await self._listed(self._client, self.config.node_selector)
        return [node for node in found if node_selection.is_ready(node)]

    @staticmethod
    async def _listed(client: Client, selector: LabelSelector | None) -> list[Node]:
        text = "" if selector is None else str(label_selector.of(selector))
        return node_selection.selected(await client.list_all(Node, label_selector=text), None)


def _frameworks(
    config: DeschedulerConfiguration, catalogue: Catalogue[Plugin], runtime: Runtime
) -> list[Framework]:
    if not config.profiles:
        raise ConfigError("at least one profile is required")
    frameworks: dict[str, Framework] = {}
    for profile in config.profiles:
        try:
            framework = Framework(profile, catalogue, runtime)
        except ConfigError as error:
            raise error.under(f"creating profile for descheduler name {profile.name}") from error
        if not profile.name:
            raise ConfigError("descheduler name is needed")
        if profile.plugins is None:
            raise ConfigError(f'plugins required for profile with descheduler name "{profile.name}"')
        if profile.name in frameworks:
            raise ConfigError(f'duplicate profile with descheduler name "{profile.name}"')
        frameworks[profile.name] = framework
    return list(frameworks.values())
