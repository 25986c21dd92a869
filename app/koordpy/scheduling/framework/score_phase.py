"""Which of the feasible nodes suit a pod best: PreScore, Score, and the weights."""

from collections.abc import Collection, Mapping

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    BeforeScore,
    NodeTransformer,
    PreScore,
    Score,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gpus import ChooseGPU
from koordpy.scheduling.interface.outcome import Scores
from koordpy.scheduling.interface.status import SUCCESS, Status

from .enabled_plugins import EnabledPlugins
from .plugin_call import Broken, as_error, call

_AS_THEY_ARE = Score.normalize_scores


class ScorePhase:
    """The plugins that rank nodes, and their weights by name (1 where none is given)."""

    def __init__(self, enabled: EnabledPlugins, weights: Mapping[str, int]) -> None:
        self._pre_score = enabled.at("pre_score", PreScore)
        transformers = (*enabled.at("pre_score", NodeTransformer), *enabled.at("score", NodeTransformer))
        self._transformers = dict(transformers)
        self._before_score = enabled.at("score", BeforeScore)
        self._score = [(name, plugin, weights.get(name) or 1) for name, plugin in enabled.at("score", Score)]
        self._by_name = {each[0]: each for each in self._score}
        self.weights: dict[str, int] = {name: weight for name, _, weight in self._score}
        self._normalizing = [
            name for name, plugin, _ in self._score if type(plugin).normalize_scores is not _AS_THEY_ARE
        ]
        choosing = [(name, plugin) for name, plugin in enabled.at("score", ChooseGPU) if name in self.weights]
        self.gpu_choosers = sorted(choosing, key=lambda named: -self.weights[named[0]])
        """The plugins that choose GPUs, those with the largest weight first."""
        self.replaces_before_score = bool(self._before_score)
        """Whether any plugin may score another pod, or other nodes."""

    def run_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[Scores | None, Status]:
        """Run PreScore, BeforeScore and Score; return normalised, weighted scores of all the nodes."""
        try:
            for name, transformer in self._transformers.items():
                nodes = call(state, "TransformNodes", name, transformer.transform_nodes, state, pod, nodes)
            status = self._run_pre_score(state, pod, nodes)
            if not status.is_success:
                return None, status
            for name, before in self._before_score:
                pod, nodes, status = call(state, "BeforeScore", name, before.before_score, state, pod, nodes)
                if not status.is_success:
                    return None, status
            return self._run_score(state, pod, nodes), SUCCESS
        except Broken as broken:
            return None, broken.status

    def raw_scores(
        self, state: CycleState, pod: Pod, nodes: NodeSet, names: Collection[str]
    ) -> dict[str, Int64]:
        """Run PreScore and Score of some plugins; return (n,) scores before normalization, by plugin.

        Plugins that skip the pod are left out. Raises Broken.
        """
        for name, transformer in self._transformers.items():
            nodes = call(state, "TransformNodes", name, transformer.transform_nodes, state, pod, nodes)
        state.skip_score.difference_update(names)
        status = self._run_pre_score(state, pod, nodes, names)
        if not status.is_success:
            raise Broken(status)
        return {
            name: call(state, "Score", name, plugin.score_nodes, state, pod, nodes)
            for name, plugin, _ in self._score
            if name in names and name not in state.skip_score
        }

    def is_normalizing(self, name: str) -> bool:
        """Return whether a plugin's score of a node depends on those of the other nodes."""
        return name in self._normalizing

    def weighted(self, state: CycleState, pod: Pod, name: str, raw: Int64) -> Int64:
        """(n,) the normalised and weighted scores of a plugin. Raises Broken."""
        _, plugin, weight = self._by_name[name]
        return self._weighted(state, pod, name, plugin, weight, raw)

    def are_relative(self, scores: Scores) -> bool:
        """Return whether the differences of scores may change among fewer nodes.

        Normalization scales by the best or the worst score. With only two distinct values, the difference
        between them is the same among any nodes.
        """
        for name in self._normalizing:
            values = scores.by_plugin.get(name)
            if values is not None and ((values != values.min()) & (values != values.max())).any():
                return True
        return False

    def _run_pre_score(
        self, state: CycleState, pod: Pod, nodes: NodeSet, names: Collection[str] | None = None
    ) -> Status:
        for name, plugin in self._pre_score:
            if names is not None and name not in names:
                continue
            status = call(state, "PreScore", name, plugin.pre_score, state, pod, nodes)
            if status.is_skip:
                state.skip_score.add(name)
            elif not status.is_success:
                return as_error(f'running PreScore plugin "{name}"', status, name)
        return SUCCESS

    def _run_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Scores:
        by_plugin: dict[str, Int64] = {}
        total = np.zeros(len(nodes), np.int64)
        for name, plugin, weight in self._score:
            if name in state.skip_score:
                continue
            raw = call(state, "Score", name, plugin.score_nodes, state, pod, nodes)
            by_plugin[name] = self._weighted(state, pod, name, plugin, weight, raw)
            total += by_plugin[name]
        return Scores(nodes, by_plugin, total)

    @staticmethod
    def _weighted(state: CycleState, pod: Pod, name: str, plugin: Score, weight: int, raw: Int64) -> Int64:
        scores = raw
        if type(plugin).normalize_scores is not _AS_THEY_ARE:
            scores = call(state, "ScoreExtensionNormalize", name, plugin.normalize_scores, state, pod, raw)
        if not _are_in_range(scores):
            outside = scores[(scores < MIN_NODE_SCORE) | (scores > MAX_NODE_SCORE)][0]
            raise Broken(
                Status.failed(
                    "applying score defaultWeights on Score plugins: "
                    f'plugin "{name}" returns an invalid score {outside}, it should in the range '
                    f"of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
                ).by(name)
            )
        return scores if weight == 1 else scores * weight


def _are_in_range(scores: Int64) -> bool:
    """Return whether no score is invalid; read as unsigned numbers, scores below 0 are the largest."""
    if not len(scores):
        return True
    if MIN_NODE_SCORE == 0 and scores.dtype == np.int64:
        return not np.count_nonzero(scores.view(np.uint64) > MAX_NODE_SCORE)
    return bool(scores.min() >= MIN_NODE_SCORE and scores.max() <= MAX_NODE_SCORE)
