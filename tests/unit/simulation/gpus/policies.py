"""Policies for tests."""

import numpy as np

from koordpy.scheduling.interface import Plugin, Score
from koordpy.scheduling.interface.gpus import GPU_REQUEST, GPUS, ChooseGPU


class Emptiest(Plugin, Score):
    """The node with most free GPUs."""

    name = "Emptiest"

    def score_nodes(self, state, pod, nodes):
        return state.read(GPUS).free_total(nodes.rows) // 100


class Equal(Plugin, Score, ChooseGPU):
    """All nodes are equal, and the last GPU is taken that suffices."""

    name = "Equal"

    def score_nodes(self, state, pod, nodes):
        return np.zeros(len(nodes), np.int64)

    def choose_gpu(self, state, pod, row):
        return int(np.flatnonzero(state.read(GPUS).free[row] >= state.read(GPU_REQUEST).milli)[-1])


class NoScore(Plugin):
    """Not a policy."""

    name = "NoScore"
