"""Trial scheduling for the descheduler: whole cycles of a process's scheduling profiles, without effects.

They run as those of a what-if, on the current cluster without the round's earlier victims, whose successors
are on the nodes that their proofs named.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

import numpy as np

from koordpy.api.config_model import ConfigError
from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject
from koordpy.api.pods.successor import successor_of
from koordpy.cluster.cluster import Cluster
from koordpy.compose.part import Context
from koordpy.descheduling.proof.trial import MOST_COMPARED, Attempt, Candidate, TrialSession
from koordpy.lib.counting import counted
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.explain.explained import rejected
from koordpy.scheduling.explain.what_if import Rehearsal, Trial
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import Scores
from koordpy.scheduling.profiles import config as scheduling_config
from koordpy.scheduling.profiles.profiles import Profiles
from koordpy.scheduling.profiles.registry import Place, build
from koordpy.settings import Settings


class _Extender(Protocol):
    profiles: Profiles


def trial_scheduling(process: Context) -> "TrialScheduling":
    """Return the trial scheduling of a process, with the profiles of its extender if it has one.

    Raises ConfigError, OSError.
    """
    extender = process.named("extender")
    if extender is not None:
        return TrialScheduling(process.cluster, lambda: cast(_Extender, extender).profiles)
    base = Handle(process.cluster, clock=process.clock, rng=process.rng)
    profiles = _build(process.settings, base, process.gates)
    return TrialScheduling(process.cluster, lambda: profiles)


def hypothetical(process: Context, cluster: Cluster) -> "TrialScheduling":
    """Return trial scheduling on a copy of a process's view, with profiles of its own.

    Raises ConfigError, OSError.
    """
    base = Handle(cluster, clock=process.clock, rng=process.rng)
    profiles = _build(process.settings, base, process.gates)
    return TrialScheduling(cluster, lambda: profiles)


def follows(settings: Settings) -> tuple[type[KubeObject], ...]:
    """Return what trial scheduling follows with these settings. Raises ConfigError, OSError."""
    cluster = Cluster()
    profiles = _build(settings, Handle(cluster), None)
    types = {store.type for store in cluster.stores}
    for framework in (*profiles.wholes.values(), *profiles.frameworks.values()):
        types.update(*(plugin.needs.later for plugin in framework.plugins))
    return tuple(sorted(types, key=lambda type_: type_.__name__))


def scheduler_config(settings: Settings) -> Path:
    """Return the KubeSchedulerConfiguration of the profiles that prove evictions."""
    own = settings.worker.descheduler.scheduler_config
    return settings.extender.profiles_file if own is None else Path(own)


def _build(settings: Settings, base: Handle, gates: FeatureGates | None) -> Profiles:
    """Create the profiles, without a client: their plugins write nothing."""
    path = scheduler_config(settings)
    try:
        return build(
            scheduling_config.load(path),
            lambda _: base.sibling(),
            place=Place.EXTENDER,
            skip_missing=settings.extender.skip_missing_plugins,
            gates=gates,
        )
    except ConfigError as error:
        raise error.under(path) from None


@dataclass(frozen=True)
class TrialScheduling:
    """Starts sessions on a cluster, with the profiles that a process has by then."""

    cluster: Cluster
    profiles: Callable[[], Profiles]

    def session(self) -> TrialSession:
        """Start a session."""
        return Session(self.cluster, self.profiles())


@dataclass
class Session:
    """The cycles of one round."""

    cluster: Cluster
    profiles: Profiles
    _rehearsal: Rehearsal | None = field(default=None)
    _successors: dict[str, tuple[Pod, str]] = field(default_factory=dict)
    """Successors and their nodes by the victim's UID."""

    def attempt(self, victim: Pod) -> Attempt:
        """Return where a pod would be scheduled that is evicted now."""
        name = victim.spec.scheduler_name or "default-scheduler"
        framework = self.profiles.whole_of(name)
        if framework is None:
            served = ", ".join(self.profiles.frameworks) or "none"
            return Attempt(reason=f"no profile for schedulerName {name}; profiles: {served}")
        if self._rehearsal is None:
            self._rehearsal = Rehearsal(framework, self.cluster)
        rehearsal = self._rehearsal
        rehearsal.framework = framework
        rehearsal.remove(victim)
        trial = rehearsal.try_pod(successor_of(victim), top=1)
        rehearsal.restore(victim)
        if trial.scores is None:
            return Attempt(reason=_reason(trial, len(rehearsal.nodes)))
        return _found(trial.scores)

    def keep(self, victim: Pod, node_name: str) -> None:
        """Show later attempts a victim as gone, and its successor on a node."""
        if self._rehearsal is None:
            return
        successor = successor_of(victim)
        self._successors[victim.metadata.uid] = successor, node_name
        self._rehearsal.remove(victim)
        self._rehearsal.place(successor, node_name)

    def undo(self, victim: Pod) -> None:
        """Undo `keep`: the victim stays."""
        known = self._successors.pop(victim.metadata.uid, None)
        if known is not None and self._rehearsal is not None:
            self._rehearsal.take_back(*known)
            self._rehearsal.restore(victim)

    def arrived(self, victim: Pod) -> None:
        """Show later attempts the victim's successor no longer: it is in the cluster now."""
        known = self._successors.pop(victim.metadata.uid, None)
        if known is not None and self._rehearsal is not None:
            self._rehearsal.take_back(*known)


def _found(scores: Scores) -> Attempt:
    """Return the nodes with the highest score, in the order of the node table."""
    nodes, total = scores.nodes, scores.total
    at = np.flatnonzero(total == total.max())
    names = nodes.names
    best = []
    for row in nodes.rows[at[:MOST_COMPARED]].tolist():
        node = nodes.table.node(row)
        if node is not None:
            best.append(Candidate(node, tuple(nodes.pods_on(row))))
    return Attempt(best, frozenset([names[index] for index in at.tolist()]), feasible=len(total))


def _reason(trial: Trial, nodes: int) -> str:
    """Return which plugins reject how many nodes, and why."""
    if trial.outcome is None or trial.outcome.error is not None:
        return f"{trial.stage}: {trial.message}"
    parts = [
        f"{status.plugin or trial.stage} rejects {count} ({status.message})"
        for status, count, _ in rejected(trial.outcome, 0)
    ]
    return f"of {counted(nodes, 'node')} " + ", ".join(parts) if parts else f"{trial.stage}: {trial.message}"
