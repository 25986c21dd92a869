"""The proof of an eviction: the scheduler would place the pod where the evicting plugin leaves it alone.

The pod would be scheduled to one of the nodes with the highest score. kube-scheduler picks any of them, so
the plugin must have no objection to any; the first of them is the node that the proof names.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from koordpy.api.core import Pod
from koordpy.descheduling.interface import EvictingPlugin
from koordpy.descheduling.metrics import PROOFS
from koordpy.lib.counting import counted

from .moved_pods import MovedPods
from .settings import ProofSettings
from .successor import kind_of, together
from .trial import TrialScheduler, TrialSession

MOST_KINDS: Final = 100
"""The most kinds of victims of one round whose nodes are kept for others; the oldest are forgotten first."""

LONGEST_REASON: Final = 1024
"""Characters."""


@dataclass(frozen=True)
class Proof:
    """An eviction that may go on: the node that the pod is expected on, and equally good ones."""

    node: str
    nodes: frozenset[str]


@dataclass(frozen=True)
class Unproved:
    """Why a pod stays. `recent`: it was moved lately."""

    reason: str
    recent: bool = False


@dataclass
class Proofs:
    """What all profiles of a descheduler share: one trial session per round, and the moved pods."""

    trials: TrialScheduler
    moved: MovedPods
    counted: bool = True
    """Whether metrics count the results."""
    _nodes: OrderedDict[tuple[str, str, bytes], set[str]] = field(default_factory=OrderedDict)
    """The nodes of the round's victims by profile, plugin and kind: victims of a kind share one set."""
    _session: TrialSession | None = field(default=None)

    def begin(self) -> None:
        """Start a round: what earlier rounds expected is in the cluster by now, or did not happen."""
        self._session = None
        self._nodes.clear()
        self.moved.forget_old()

    def nodes_of(self, kind: tuple[str, str, bytes]) -> set[str]:
        """Return the set of nodes that the round's victims of a kind share, to be added to."""
        found = self._nodes.setdefault(kind, set())
        if len(self._nodes) > MOST_KINDS:
            self._nodes.popitem(last=False)
        return found

    @property
    def session(self) -> TrialSession:
        """The trial session of the round."""
        if self._session is None:
            self._session = self.trials.session()
        return self._session

    def not_evicted(self, uid: str) -> None:
        """Expect no successor of a pod any more: its eviction has ended without success."""
        victim = self.moved.ended(uid)
        if victim is not None and self._session is not None:
            self._session.undo(victim)

    def arrived(self, victim: Pod) -> None:
        """Count a victim's successor no longer besides the cluster's pods."""
        if self._session is not None:
            self._session.arrived(victim)


class ProfileProof:
    """The proofs of one profile. `plugins` are those that evict, by name."""

    def __init__(
        self, profile: str, settings: ProofSettings, proofs: Proofs, plugins: Mapping[str, EvictingPlugin]
    ) -> None:
        self._profile, self._proofs, self._plugins = profile, proofs, plugins
        self._window = timedelta(microseconds=settings.window / 1000)

    def prove(self, pod: Pod, plugin_name: str) -> Proof | Unproved | None:
        """Return where an evicted pod would go, or why it must stay.

        None needs no proof: a pod that has ended takes no node, or its plugin is not one that moves pods.
        """
        plugin = self._plugins.get(plugin_name)
        if plugin is None or pod.is_terminal:
            return None
        moved = self._proofs.moved.reason_against(pod, self._profile, plugin_name, plugin, self._window)
        if moved is not None:
            self._count(plugin_name, "recentlyMoved")
            return Unproved(moved, recent=True)
        found = self._find(pod, plugin)
        self._count(plugin_name, "proved" if isinstance(found, Proof) else "unproved")
        return found

    def _count(self, plugin_name: str, result: str) -> None:
        if self._proofs.counted:
            PROOFS.labels(plugin_name, result).inc()

    def _find(self, pod: Pod, plugin: EvictingPlugin) -> Proof | Unproved:
        attempt = self._proofs.session.attempt(pod)
        if not attempt.best:
            return Unproved(f"no node for it: {attempt.reason}"[:LONGEST_REASON])
        expected = self._proofs.moved.expected()
        for candidate in attempt.best:
            name = candidate.node.metadata.name
            pods = together(candidate.pods, expected.get(name, ()))
            objection = plugin.objection(pod, candidate.node, pods)
            if objection is not None:
                best = "the best" if len(attempt.names) == 1 else f"one of the {len(attempt.names)} best"
                return Unproved(
                    f"it would be scheduled to node {name}, {best} of "
                    f"{counted(attempt.feasible, 'feasible node')}, and {plugin.name} would move it "
                    f"again from there: {objection}"[:LONGEST_REASON]
                )
        return Proof(attempt.best[0].node.metadata.name, attempt.names)

    def evicting(self, pod: Pod, plugin_name: str, proof: Proof, *, dry_run: bool) -> None:
        """Keep the place of a pod that is about to be evicted for the later ones; expect its successor."""
        self._proofs.session.keep(pod, proof.node)
        if dry_run:
            return
        nodes = self._proofs.nodes_of((self._profile, plugin_name, kind_of(pod)))
        nodes |= proof.nodes
        plugin = self._plugins[plugin_name]
        self._proofs.moved.evicting(
            pod, self._profile, plugin_name, plugin, proof.node, nodes, self._proofs.arrived
        )

    def stays(self, pod: Pod) -> None:
        """Undo `evicting`: the pod was not evicted."""
        self._proofs.moved.stays(pod)
        self._proofs.session.undo(pod)
