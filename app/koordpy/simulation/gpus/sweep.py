"""All runs of a scenario, one after the other or on several processors, or a part of them.

A run depends on its policy and seed alone, so where and in which order runs are done changes nothing.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from koordpy.api.config_model import ConfigError
from koordpy.scheduling.interface import Plugin, Score
from koordpy.scheduling.profiles.registry import installed
from koordpy.scheduling.toolkit.gpu_fragments import TypicalPods

from . import workload
from .experiment import Experiment, Run
from .scenario import GPUFillScenario
from .workload import Node, Request


@dataclass(frozen=True)
class Task:
    """One run; everything that it depends on."""

    nodes: Path
    trace: Path
    load: float
    typical: float
    name: str
    """Of the policy."""
    plugin: type[Plugin]
    seed: int
    args: Mapping[str, Any] = field(default_factory=dict)


def tasks(
    told: GPUFillScenario, folder: Path, plugins: Mapping[str, type[Plugin]] | None = None
) -> list[Task]:
    """Return the runs of a scenario whose files are in `folder`: by seed, then by policy.

    `plugins` are known besides the installed ones. Raises ConfigError for a policy that is not installed or
    has no Score.
    """
    found = {}
    for number, policy in enumerate(told.policies):
        name, path = policy.plugin or policy.name, f"policies[{number}].plugin"
        plugin = (plugins or {}).get(name) or installed().load(name, path)
        if not issubclass(plugin, Score):
            raise ConfigError(f"{path}: got {name!r}, expected a plugin with Score")
        found[policy.name] = plugin, policy.args
    return [
        Task(folder / told.nodes, folder / told.trace, told.load, told.typical, name, plugin, seed, args)
        for seed in told.seeds
        for name, (plugin, args) in found.items()
    ]


def part(of: Sequence[Task], index: int, parts: int) -> list[Task]:
    """Return every `parts`-th run, from `index` on."""
    return list(of[index::parts])


def run(task: Task) -> Run:
    """Do one run. Raises ConfigError, OSError."""
    nodes, trace, typical = _read(task.nodes, task.trace, task.typical)
    experiment = Experiment(nodes, task.plugin, dict(task.args), task.seed)
    pods = workload.arrivals(trace, experiment.fleet.capacity, task.load, experiment.rng)
    found = experiment.run(pods, typical, task.seed)
    found.policy = task.name
    return found


def run_all(
    of: Sequence[Task], jobs: int = 1, progress: Callable[[int, Run], None] | None = None
) -> list[Run]:
    """Do runs on so many processors; `progress` is told how many are done, and the last one.

    Returns them in the order of the tasks. Raises ConfigError, OSError.
    """
    found: dict[int, Run] = {}
    for index, done in _each(of, min(jobs, len(of))):
        found[index] = done
        if progress is not None:
            progress(len(found), done)
    return [found[index] for index in range(len(of))]


def all_cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def _each(of: Sequence[Task], jobs: int) -> Iterator[tuple[int, Run]]:
    if jobs <= 1:
        for index, task in enumerate(of):
            yield index, run(task)
        return
    # A new interpreter each: a fork would copy whatever threads there are.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(run, task): index for index, task in enumerate(of)}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


@cache
def _read(nodes: Path, trace: Path, typical: float) -> tuple[list[Node], list[Request], TypicalPods]:
    pods = workload.read_pods(trace)
    return workload.read_nodes(nodes), pods, TypicalPods.of((pod.gpu for pod in pods), typical)
