"""Configuration that changes while the agent runs: read again, validated, and applied to the plugins.

A change is applied as a whole or refused as a whole; then the old configuration stays in force, and log,
metric and `/configz` say why. What a plugin has is exchanged with that plugin; settings of the process and of
its services are refused, because they take effect only after a restart.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from prometheus_client import Counter

from koordpy.lib.clock import Clock

log = logging.getLogger(__name__)

CHECK_SECONDS: Final = 5.0

RELOADS: Final = Counter(
    "koordpy_agent_config_reloads_total",
    "Changes of the configuration file, by whether they were applied or refused.",
    ["result"],
)


class ReloadError(ValueError):
    """A change that cannot be applied while the agent runs."""


@dataclass(frozen=True)
class Desired:
    """What the configuration says of the agent: flags, arguments and gates, and everything else."""

    flags: Mapping[str, Any] = field(default_factory=dict)
    args: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    gates: Mapping[str, bool] = field(default_factory=dict)
    rest: Mapping[str, Any] = field(default_factory=dict)


class Reloading:
    """A service that watches the configuration file. `load` reads it, `apply` applies it; both may raise."""

    name: Final = "configuration"

    def __init__(
        self,
        file: Path,
        load: Callable[[], Desired],
        apply: Callable[[Desired, Desired], Awaitable[list[str]]],
        *,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Take the file as it is now for the one in force. Raises what `load` raises."""
        self._file, self._load, self._apply, self._clock, self._sleep = file, load, apply, clock, sleep
        self._stamp = self._read_stamp()
        self._current = load()
        self.last: dict[str, object] = {}
        """The last change: time, result, and the exchanged plugins or why it was refused."""

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await self.check()
            await self._sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Apply the file if it has changed."""
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            desired = self._load()
            exchanged = await self._apply(self._current, desired)
        except Exception as error:
            log.error("%s is refused, the old configuration stays in force: %s", self._file, error)
            self._note("refused", {"message": str(error)})
        else:
            self._current = desired
            log.warning("%s was applied; exchanged plugins: %s", self._file, ", ".join(exchanged) or "none")
            self._note("applied", {"plugins": exchanged})

    def not_ready(self) -> str | None:
        """Return None: with the old configuration the agent works."""
        return None

    def _note(self, result: str, details: dict[str, object]) -> None:
        RELOADS.labels(result).inc()
        self.last = {"time": self._clock.now().isoformat(), "result": result, **details}

    def _read_stamp(self) -> tuple[int, int, int] | None:
        """Return what tells versions of the file apart; a ConfigMap's file is a link that is exchanged."""
        try:
            found = self._file.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size


def refuse_what_needs_a_restart(
    old: Desired, new: Desired, *, flags: set[str], gates: set[str], args: set[str]
) -> None:
    """Raise ReloadError unless only these flags, gates, and arguments of plugins change."""
    kinds: list[tuple[str, Mapping[str, Any], Mapping[str, Any], set[str]]] = [
        ("agent.flags", old.flags, new.flags, flags),
        ("agent.args", old.args, new.args, args),
        ("featureGates", old.gates, new.gates, gates),
        ("", old.rest, new.rest, set()),
    ]
    names = [
        f"{place}.{name}".strip(".")
        for place, before, after, free in kinds
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name) and name not in free
    ]
    if names:
        raise ReloadError(f"takes effect only after a restart of the agent: {', '.join(names)}")
