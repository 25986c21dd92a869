"""Identical pods are placed from one evaluation of all nodes (`koordpy.scheduling.cycle.rankings`).

Binds verify results that come from another pod like the pod's own: if the node has changed by then, all
filters run again.
"""

import logging
from functools import partial

from koordpy.api.core import Pod
from koordpy.scheduling.cycle.ranking import Ranking
from koordpy.scheduling.cycle.rankings import Rankings
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.profiles.profiles import Profiles

from .candidates import Candidates
from .node_choice import Chooser

log = logging.getLogger(__name__)


class Batches:
    """Finds nodes for pods identical to earlier ones, where koordpy chooses the node."""

    def __init__(self, profiles: Profiles, chooser: Chooser, handle: Handle) -> None:
        self._profiles, self._chooser = profiles, chooser
        self._nodes, self._nominator = handle.nodes, handle.nominator
        self._rankings = Rankings("workloads", handle, chooser.score, chooser)
        for name in profiles.frameworks:
            whole = profiles.whole_of(name)
            if whole is not None and whole.signer.silent:
                log.info(
                    "profile %s: every pod is evaluated alone, because these plugins do not sign pods: %s",
                    name,
                    ", ".join(whole.signer.silent),
                )

    def find(self, pod: Pod, candidates: Candidates) -> tuple[Ranking, int] | None:
        """Return the ranking and the row of the best candidate; None to evaluate the candidates.

        Nominated pods count on their nodes by rules that a ranking does not cover.
        """
        if self._nominator or not candidates.are_several:
            return None
        whole = self._profiles.whole_of(pod.spec.scheduler_name)
        if whole is None or not self._chooser.can_choose(whole, pod):
            return None
        signature = whole.signer.sign(pod)
        if signature is None:
            return None
        found = self._rankings.take(whole, pod, signature, candidates)
        if found is None:
            return None
        ranking, row = found
        if not whole.pre_filter_each(ranking.state.clone(), pod, self._nodes.all()).is_success:
            ranking.give_back(row)
            return None
        self._chooser.promise(pod, self._nodes.name_of(row), partial(ranking.give_back, row))
        return found
