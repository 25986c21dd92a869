"""What a pod's containers will do: how long they run, how they end, when they are ready."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import annotations as says

Document = dict[str, Any]

START_SECONDS = 0.3
"""How long a pod is in ContainerCreating."""
BRIEFLY = 2.0
"""How long a program runs that ends by itself, such as a Job's."""

_LONGEST = 3e9
"""Seconds, about a century: no container runs for longer."""

_SLEEP = re.compile(r"\bsleep\s+(infinity|[0-9.]+[smhd]?)")
_EXIT = re.compile(r"\bexit\s+([0-9]{1,3})\b")
_LOOP = re.compile(r"\b(while|until)\b|\btail\s+-[fF]")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SHELLS = ("sh", "bash", "ash", "dash")
_BRIEF = ("echo", "printf", "date", "true", "false", "env", "ls", "cat", "hostname", "uname", "id", "pwd")


@dataclass(frozen=True, slots=True)
class ContainerPlan:
    """One container. Times are seconds from its start."""

    name: str
    image: str
    run_for: float | None = None
    """None: for ever."""
    exit_code: int = 0
    ready_after: float | None = 0.0
    """None: never."""
    is_init: bool = False
    is_sidecar: bool = False
    """Whether it is an init container that keeps running (restartPolicy Always)."""


@dataclass(frozen=True, slots=True)
class PodPlan:
    """The containers of a pod in the order of their start. Times are seconds."""

    containers: tuple[ContainerPlan, ...]
    restart_policy: str = "Always"
    start_after: float = 0.0
    stop_after: float = 0.0
    active_deadline: float | None = None
    pulls: bool = True
    """Whether the images can be pulled."""
    host_network: bool = False


def plan_of(document: Document) -> PodPlan:
    """Return the plan of a pod that is given as a document."""
    metadata, spec = document.get("metadata") or {}, document.get("spec") or {}
    notes: Mapping[str, str] = metadata.get("annotations") or {}
    restart = spec.get("restartPolicy", "Always")
    owners = metadata.get("ownerReferences") or ()
    of_job = any(owner.get("kind") == "Job" for owner in owners)
    containers = [_init(container) for container in spec.get("initContainers") or ()]
    for container in spec.get("containers") or ():
        run_for, code = _program(container, restart, of_job)
        probe = container.get("readinessProbe") or {}
        containers.append(
            ContainerPlan(
                container["name"],
                container.get("image", ""),
                says.seconds(notes, says.RUN_FOR, run_for),
                says.number(notes, says.EXIT_CODE, code),
                says.seconds(notes, says.READY_AFTER, float(probe.get("initialDelaySeconds") or 0)),
            )
        )
    deadline = spec.get("activeDeadlineSeconds")
    return PodPlan(
        tuple(containers),
        restart,
        says.seconds(notes, says.START_AFTER, START_SECONDS) or 0.0,
        says.seconds(notes, says.STOP_AFTER, 0.0) or 0.0,
        None if deadline is None else float(deadline),
        notes.get(says.IMAGE) != "missing",
        bool(spec.get("hostNetwork")),
    )


def _init(container: Document) -> ContainerPlan:
    sidecar = container.get("restartPolicy") == "Always"
    run_for, code = _of_command(_words(container))
    return ContainerPlan(
        container["name"],
        container.get("image", ""),
        None if sidecar else run_for or 0.0,
        0 if sidecar else code,
        is_init=True,
        is_sidecar=sidecar,
    )


def _program(container: Document, restart: str, of_job: bool) -> tuple[float | None, int]:
    """Return how long a container runs, and its exit code."""
    words = _words(container)
    run_for, code = _of_command(words)
    if run_for is None and not _is_endless(words) and (of_job or (words and restart != "Always")):
        return BRIEFLY, code
    return run_for, code


def _words(container: Document) -> list[str]:
    return [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]


def _is_endless(words: Sequence[str]) -> bool:
    text = " ".join(words)
    return "sleep infinity" in text or bool(_LOOP.search(text))


def _of_command(words: Sequence[str]) -> tuple[float | None, int]:
    """Return the seconds that a command is known to take, else None, and its exit code."""
    if not words or _is_endless(words):
        return None, 0
    program = words[0].rpartition("/")[2]
    text = " ".join(words)
    if program in _SHELLS:
        code = int(found.group(1)) % 256 if (found := _EXIT.search(text)) else 0
    else:
        code = 1 if program == "false" else 0
    naps = _SLEEP.findall(text) if program in (*_SHELLS, "sleep") else []
    if naps:
        return sum(map(_seconds, naps)), code
    if program in _BRIEF or (program in _SHELLS and (_EXIT.search(text) or _is_brief(words))):
        return BRIEFLY, code
    return None, code


def _is_brief(words: Sequence[str]) -> bool:
    """Return whether a shell runs programs that end at once, and no others."""
    script = words[-1] if len(words) > 2 and words[1].startswith("-") else ""
    programs = [part.split()[0].rpartition("/")[2] for part in re.split(r"[;&|\n]+", script) if part.split()]
    return bool(programs) and all(program in _BRIEF for program in programs)


def _seconds(text: str) -> float:
    unit = _UNITS.get(text[-1:], 0.0)
    try:
        return min(float(text[:-1]) * unit if unit else float(text), _LONGEST)
    except ValueError:
        return 0.0
