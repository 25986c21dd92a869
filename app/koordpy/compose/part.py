"""The interface of a part of a process, and what all parts share.

A part is created by its process and goes through `prepare`, `start` and `stop`. Errors in its settings are
raised by `prepare`, before anything listens or is listed.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
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
    from koordpy.http.server.client_certificates import ClientCertificates
    from koordpy.http.server.listener import Listener
    from koordpy.lib.endpoint import Endpoint

P = TypeVar("P", bound="Part")


class PartError(Exception):
    """A part's settings are incomplete, or request something that is not allowed."""


@dataclass(frozen=True, kw_only=True)
class PartNeeds:
    """What a part needs regardless of its plugins: types that it lists and watches, and further rights."""

    follows: tuple[type[KubeObject], ...] = ()
    rights: tuple[Right, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """The folder of a listener's certificate.

    A certificate for `hosts` is created there unless the folder has one; None leaves that to the part, as
    does `comes_later`, which allows creating the listener before the certificate. With `client` a client
    certificate with this common name is created too. With `clients` only callers with such a certificate are
    served.
    """

    folder: Path
    hosts: tuple[str, ...] | None = None
    comes_later: bool = False
    client: str | None = None
    clients: "ClientCertificates | None" = None


@dataclass(frozen=True, kw_only=True)
class Routes:
    """The endpoints of a part, on a separate listener: `hot` paths directly, `routers` through FastAPI.

    With `endpoints` alone a process does without FastAPI; they must include those of health.
    `on_start` is False if the part opens its listener itself. With `authenticated` the API server reviews
    callers. Calls in flight at shutdown may take `grace_seconds`. Requests of web pages of other hosts are
    refused everywhere; `checks_host` is False if Host may be any name, on loopback too.
    """

    settings: ListenerSettings
    hot: "Mapping[str, ASGIApp]" = field(default_factory=dict)
    routers: "Sequence[APIRouter]" = ()
    endpoints: "Mapping[str, Endpoint]" = field(default_factory=dict)
    certificate: Certificate | None = None
    authenticated: bool = False
    grace_seconds: int = 30
    on_start: bool = True
    checks_host: bool = True


@dataclass(frozen=True)
class ConfigSource:
    """The file of the settings, and a function that reads it again, with what overrides it."""

    file: Path
    load: Callable[[], Settings]


class Context:
    """What the parts of one process share.

    `gates` are those of all parts; they are known when parts are prepared, and so are the other `parts`.
    """

    def __init__(self, settings: Settings, connection: Channel, clock: Clock, rng: random.Random) -> None:
        self.settings, self.clock, self.rng = settings, clock, rng
        self.client = Client(connection, rng=rng)
        self.cluster = Cluster(clock)
        self.informers = Informers(self.cluster, self.client, rng=rng)
        self.events = Recorder(self.client, clock=clock)
        self.health = Health()
        self.gates = FeatureGates({})
        self.parts: list[Part] = []
        self.source: ConfigSource | None = None

    def part(self, type_: type[P]) -> P:
        """Return the part of a type. Raises LookupError if the process does not have it."""
        found = self.find(type_)
        if found is None:
            raise LookupError(f"the part {type_.name} does not run in this process")
        return found

    def find(self, type_: type[P]) -> P | None:
        """Return the part of a type, None if the process does not have it."""
        return next((part for part in self.parts if isinstance(part, type_)), None)

    def named(self, name: str) -> "Part | None":
        """Return the part of a name, for callers that must not import optional parts."""
        return next((part for part in self.parts if part.name == name), None)


class Part(ABC):
    """A part of one process.

    `accompanies` marks a part that only serves the others: a process with no other part runs until stopped,
    and a process ends when its other parts have ended.
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
    def lacks_gates(self) -> bool:
        """Whether gates of plugins of the part are not known; then unknown names are not refused."""
        return False

    @property
    def shutdown_delay(self) -> float:
        """Seconds that the process still answers after it was told to stop, until the cluster has noticed."""
        return 0.0

    @abstractmethod
    def prepare(self) -> None:
        """Create everything, and request from the cluster what is to be followed.

        Nothing is listed, listened on or written before `start`. Raises PartError, ConfigError,
        PluginLoadError, FeatureGateError, OSError.
        """

    def routes(self) -> Routes | None:
        """Return the part's endpoints, after it was prepared; None if it has none."""
        return None

    def bound(self, listener: "Listener") -> None:
        """Receive the listener of the part's routes, which is bound but not open yet."""

    async def start(self) -> None:
        """Start working and return. The informers have been started; the first lists may be incomplete."""

    async def wait_ready(self) -> None:
        """Return once the part is ready to work; everything has been listed."""

    async def wait(self) -> None:
        """Return when the part's work is over; most parts never end. Raises its error."""
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """End what `start` began; listeners may still answer. Also called without `start`."""


class WorkingPart(Part):
    """A part whose work is one coroutine, from the start to the end."""

    def __init__(self, process: Context) -> None:
        super().__init__(process)
        self._working: asyncio.Task[None] | None = None

    @abstractmethod
    async def work(self) -> None:
        """Work until cancelled, or until there is nothing left to do."""

    async def start(self) -> None:
        """Start working."""
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
