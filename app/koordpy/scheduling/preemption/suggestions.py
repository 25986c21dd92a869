"""Which evictions would let a pod fit that fits nowhere: suggestions only."""

from typing import Final

import numpy as np

from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.api.output_model import OutputModel
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.status import Code

from .budgets import Budgets
from .choice import least_loss
from .dry_run import DryRun, Findings
from .importance import priority_of

PREEMPTION: Final = "DefaultPreemption"

NODES_TRIED: Final = 100
"""The most nodes evaluated; more would take too long for a request."""

CANDIDATES: Final = 10
"""The number of candidates that suffices."""


class Victim(OutputModel):
    """A pod that would have to be evicted."""

    namespace: str
    name: str
    uid: str
    priority: int


class Eviction(OutputModel):
    """The node on which preemption costs least. `candidates` is the number of nodes that were found."""

    node: str
    victims: list[Victim]
    pdb_violations: int
    candidates: int


def find_evictions(
    framework: Framework, cluster: Cluster, state: CycleState, pod: Pod, outcome: FilterOutcome
) -> Findings:
    """Return which evictions of less important pods would let a pod fit, and on which nodes.

    `state` and `outcome` are those of the cycle in which the pod fit nowhere. Nothing is found if the profile
    does not preempt, or the pod must not.
    """
    if (
        pod.spec.preemption_policy == "Never"
        or not outcome.prefilter.is_success
        or all(plugin.name != PREEMPTION for plugin in framework.plugins)
    ):
        return Findings()
    refused = set(outcome.refused_with(Code.UNSCHEDULABLE))
    at = np.array([i for i, name in enumerate(outcome.nodes.names) if name in refused], np.int64)
    if not len(at):
        return Findings()
    mine = priority_of(pod)
    budgets = next((store for store in cluster.stores if store.type is PodDisruptionBudget), ())
    run = DryRun(
        framework,
        state,
        pod,
        lambda victim: priority_of(victim) < mine,
        Budgets(budgets),
        cluster.clock.now(),
    )
    return run.run(outcome.nodes.pick(at[:NODES_TRIED]), CANDIDATES)


def best_eviction(findings: Findings, cluster: Cluster) -> Eviction | None:
    """Return the candidate that preemption would choose; None if there is none."""
    node = least_loss(findings.candidates, cluster.clock.now())
    if not node:
        return None
    found = findings.candidates[node]
    return Eviction(
        node=node,
        victims=[victim_of(pod) for pod in found.pods],
        pdb_violations=found.pdb_violations,
        candidates=len(findings.candidates),
    )


def victim_of(pod: Pod) -> Victim:
    """Describe a pod that would have to be evicted."""
    meta = pod.metadata
    return Victim(namespace=meta.namespace, name=meta.name, uid=meta.uid, priority=priority_of(pod))
