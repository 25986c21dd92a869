"""What a process is made of, and what all of it share.

A part is made by the process that it belongs to and lives through `prepare`, `start` and `stop`. Whatever is
wrong with its settings shows in `prepare`, before anything listens or is listed.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from koordpy.api.meta import KubeObject
from koordpy.api.needs import Right
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Channel
from koordpy.cluster.events import Recorder
from koordpy.cluster.informers import Informers
from koordpy.lib.clock import Clock
from koordpy.lib.feature_gates import FeatureGates, FeatureSpec
from koordpy.lib.health import Health
from koordpy.settings import ListenerSettings, Settings

if TYPE_CHECKING:
    from fastapi import APIRouter

    from koordpy.http.server.asgi import ASGIApp
    from koordpy.http.server.listener import Listener

P = TypeVar("P", bound="Part")


class PartError(Exception):
    """A part's settings are not enough for it, or ask for something that must not be."""


@dataclass(frozen=True, kw_only=True)
class PartNeeds:
    """What a part needs whichever plugins run in it: types that it lists and watches, and further rights."""

    follows: tuple[type[KubeObject], ...] = ()
    rights: tuple[Right, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The folder of a listener's certificate.

    A certificate for `hosts` is made there unless the folder has one; None leaves that to the part, as does
    `comes_later`, with which the listener can be made before the certificate.
    """

    folder: Path
    hosts: tuple[str, ...] | None = None
    comes_later: bool = False


@dataclass(frozen=True, kw_only=True)
class Routes:
    """What a part answers, on a listener of its own: `hot` paths directly, `routers` through FastAPI.

    `on_start` is False where the part opens its listener itself. `authenticated` has the API server review
    who calls. Calls that are under way at the end may take `grace_seconds`.
    """

    settings: ListenerSettings
    hot: "Mapping[str, ASGIApp]" = field(default_factory=dict)
    routers: "Sequence[APIRouter]" = ()
    certificate: Certificate | None = None
    authenticated: bool = False
    grace_seconds: int = 30
    on_start: bool = True


class Context:
    """What the parts of one process have in common.

    `gates` are those of all parts; they are known when parts are prepared, and so are the other `parts`.
    """

    def __init__(self, settings: Settings, connection: Channel, clock: Clock, rng: random.Random) -> None:
        self.settings, self.clock, self.rng = settings, clock, rng
        self.client = Client(connection)
        self.cluster = Cluster(clock)
        self.informers = Informers(self.cluster, self.client, rng=rng)
        self.events = Recorder(self.client, clock=clock)
        self.health = Health()
        self.gates = FeatureGates({})
        self.parts: list[Part] = []

    def part(self, type_: type[P]) -> P:
        """Return the part of a type. Raises LookupError where the process does not have it."""
        found = self.find(type_)
        if found is None:
            raise LookupError(f"the part {type_.name} does not run in this process")
        return found

    def find(self, type_: type[P]) -> P | None:
        """Return the part of a type, None where the process does not have it."""
        return next((part for part in self.parts if isinstance(part, type_)), None)

    def named(self, name: str) -> "Part | None":
        """Return the part of a name, for callers that must not import parts which may not be there."""
        return next((part for part in self.parts if part.name == name), None)


class Part(ABC):
    """A part of one process.

    `accompanies` marks a part that does nothing by itself: a process of nothing else is never over, and one
    whose other parts have ended does not go on for it.
    """

    name: ClassVar[str]
    accompanies: ClassVar[bool] = False

    def __init__(self, process: Context) -> None:
        self.process = process

    @classmethod
    def needs(cls, settings: Settings) -> PartNeeds:
        """Return what the part needs with these settings. Raises ConfigError, OSError for files in them."""
        return PartNeeds()

    @property
    def gates(self) -> Mapping[str, FeatureSpec]:
        """The feature gates that the part knows."""
        return {}

    @property
    def shutdown_delay(self) -> float:
        """Seconds that the cluster needs to learn that the process ends, while it still answers."""
        return 0.0

    @abstractmethod
    def prepare(self) -> None:
        """Make everything, and request from the cluster what is to be followed.

        Nothing is listed, listened on or written before `start`. Raises PartError, ConfigError,
        PluginLoadError, FeatureGateError, OSError.
        """

    def routes(self) -> Routes | None:
        """Return what the part answers, after it was prepared; None for nothing."""
        return None

    def bound(self, listener: "Listener") -> None:
        """Take the listener of the part's routes, which has its address and is not open yet."""

    async def start(self) -> None:
        """Begin to work and return. The informers have been started; the first lists may be incomplete."""

    async def wait_ready(self) -> None:
        """Return when the part can do its work, everything being listed."""

    async def wait(self) -> None:
        """Return when the part's work is over, which for most parts never happens. Raises its error."""
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """End what `start` began; listeners may still be answering. Called without `start`, too."""


class WorkingPart(Part):
    """A part whose work is one coroutine, from the start to the end."""

    def __init__(self, process: Context) -> None:
        super().__init__(process)
        self._working: asyncio.Task[None] | None = None

    @abstractmethod
    async def work(self) -> None:
        """Work until cancelled, or until there is nothing left to do."""

    async def start(self) -> None:
        """Begin to work."""
        self._working = asyncio.create_task(self.work(), name=f"part {self.name}")

    async def wait(self) -> None:
        """Return when the work is over. Raises its error."""
        if self._working is not None:
            await asyncio.wait([self._working])
            try:
                self._working.result()
            except ExceptionGroup as group:
                raise _cause(group) from group

    async def stop(self) -> None:
        """End the work."""
        if self._working is not None:
            self._working.cancel()
            await asyncio.gather(self._working, return_exceptions=True)


def _cause(error: Exception) -> Exception:
    """Return the first error in groups of errors: the one that ended the work."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
