"""The pods of a GPU experiment: a trace, shuffled, and more of its pods drawn, up to a share of the GPUs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from koordpy.api.config_model import ConfigError
from koordpy.lib.go_random import GoRandom
from koordpy.scheduling.interface.gpus import WHOLE_GPU, GPURequest
from koordpy.simulation import tables

_NOTHING: Final = frozenset(("nan", "NaN", "NA", "N/A", "NULL", "null", "None", "<NA>"))
"""How tables say that a cell has no value, besides leaving it empty."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the table."""

    name: str
    cpu: int
    """Milli-CPU."""
    memory: int
    """MiB."""
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class Request:
    """What a pod of the trace requests."""

    gpu: GPURequest
    memory: int
    """MiB."""


def read_nodes(path: Path) -> list[Node]:
    """Read the nodes with GPUs of a table with the columns `sn`, `cpu_milli`, `memory_mib`, `gpu`, `model`.

    A table may have no models: then no pod that must have one fits. Raises ConfigError naming the row,
    OSError.
    """
    found = []
    for place, row in tables.rows(path):
        gpus = _whole(row, "gpu", place)
        if gpus:
            cpu, memory = _whole(row, "cpu_milli", place), _whole(row, "memory_mib", place)
            model = _text(row, "model", place)
            found.append(Node(tables.cell(row, "sn", place), cpu, memory, gpus, model))
    if not found:
        raise ConfigError(f"{path}: expected nodes with GPUs")
    return found


def read_pods(path: Path) -> list[Request]:
    """Read pods: columns `cpu_milli`, `num_gpu`, and if there are any `memory_mib`, `gpu_milli`, `gpu_spec`.

    Without `gpu_milli`, GPUs are requested whole; `gpu_spec` has models joined by `|`, or nothing (`nan` too)
    where any will do. Fractions are cut off, as by the authors' own reader of these tables. Pods are returned
    in the order of their names, if there is a column `name`. Raises ConfigError naming the row, OSError.
    """
    found = []
    for place, row in tables.rows(path):
        cpu, memory = _whole(row, "cpu_milli", place), _whole(row, "memory_mib", place, default=0)
        count = _whole(row, "num_gpu", place)
        milli = min(_whole(row, "gpu_milli", place, default=WHOLE_GPU), WHOLE_GPU) if count else 0
        if count > 1 and milli < WHOLE_GPU:
            raise ConfigError(
                f"{place}: gpu_milli: got {milli}, expected {WHOLE_GPU} of each of {count} GPUs"
            )
        models = _text(row, "gpu_spec", place) if count else ""
        allowed = frozenset(filter(None, map(str.strip, models.split("|"))))
        request = Request(GPURequest(cpu, count if milli else 0, milli, allowed), memory)
        found.append((str(row.get("name", "")), request))
    if not any(request.gpu.total for _, request in found):
        raise ConfigError(f"{path}: expected pods that request GPUs")
    return [request for _, request in sorted(found, key=lambda named: named[0])]


def arrivals(trace: Sequence[Request], capacity: int, share: float, rng: GoRandom) -> list[Request]:
    """Return pods in the order of their arrival: their GPU requests reach `share` of `capacity` milli-GPU.

    First the pods of the trace, shuffled; then pods drawn from it with replacement, until one GPU of the next
    would exceed the share; at the share itself, pods without GPUs are drawn on. Of a trace that exceeds it,
    pods are removed at random instead.
    """
    pods, limit = list(trace), share * capacity
    rng.int63()  # The authors' simulator logs a number first.
    rng.shuffle(pods)
    total = sum(pod.gpu.total for pod in pods)
    if total >= limit:
        while total > limit:
            total -= pods.pop(rng.randrange(len(pods))).gpu.total
        return pods
    while total + (pod := trace[rng.randrange(len(trace))]).gpu.milli <= limit:
        total += pod.gpu.total
        pods.append(pod)
    return pods


def _text(row: Mapping[str, Any], column: str, place: str) -> str:
    """Return a text, empty where there is none, or no such column."""
    text = tables.cell(row, column, place) if column in row else ""
    return "" if text in _NOTHING else text


def _whole(row: Mapping[str, Any], column: str, place: str, default: int | None = None) -> int:
    """Return a number without its fraction; an empty cell is 0."""
    if default is not None and column not in row:
        return default
    text = tables.cell(row, column, place)
    try:
        value = int(text or 0) if text.isdigit() else int(float(text or 0))
    except (ValueError, OverflowError):
        value = -1
    if not 0 <= value < 2**53:
        raise ConfigError(f"{place}: {column}: got {text!r}, expected a number that is not negative")
    return value
