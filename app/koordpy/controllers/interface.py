"""The interface of controllers: what they are given, may do, and how they are called.

A controller is a class named by an entry point of group `koordpy.controllers`. It is constructed once with
its arguments and a `Handle`, set up before the cluster is followed, and run in the one process that leads.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from koordpy.api.meta import KubeObject
from koordpy.api.plugin import BasePlugin, PluginArgs
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import WARNING, Recorder
from koordpy.lib.clock import Clock, SystemClock
from koordpy.lib.feature_gates import FeatureGates

from .queue import WorkQueue


@dataclass
class Handle:
    """What controllers may use: the view of the cluster, writes, the gates, time and randomness."""

    cluster: Cluster
    gates: FeatureGates
    connected: Client | None = None
    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random = field(default_factory=random.Random)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    events: Recorder | None = None
    config_namespace: str = "koordinator-system"
    slo_config_name: str = "slo-controller-config"
    """Where the configuration of the SLO controllers is."""

    @property
    def client(self) -> Client:
        """Writes to the API server. Raises RuntimeError if there is none: only `plan` works offline."""
        if self.connected is None:
            raise RuntimeError("this controller has no API server to write to")
        return self.connected

    def report(self, regarding: KubeObject, reason: str, message: str, *, type_: str = WARNING) -> None:
        """Record an event about an object, if events are recorded."""
        if self.events is not None:
            self.events.event(regarding, type_, reason, message)

    def queue(self, name: str) -> WorkQueue:
        """Return a new queue, by the handle's clock."""
        return WorkQueue(name, self.clock)


@dataclass(frozen=True)
class Plan:
    """What a controller would do to an object, by the rule (a profile, say) called `subject`.

    `patch` is the JSON merge patch that it would send, empty if nothing differs. `problem` is the reason why
    it could not: then there is no patch.
    """

    subject: str
    patch: dict[str, Any]
    problem: str = ""


class Controller(BasePlugin, ABC):
    """A loop that reconciles objects with other objects.

    `name` is its name in `--controllers` and of its entry point. `feature` is the gate that it needs, None
    for none. `needs` declares requirements beyond the objects that it follows.
    """

    handle: Handle

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)

    def setup(self) -> None:
        """Request stores from the cluster, add indexes and subscribe; called once, before anything is listed.

        It is called in every process, leading or not; nothing may be written yet.
        """

    @abstractmethod
    async def run(self) -> None:
        """Work until cancelled; called once everything is listed and this process leads.

        It is called again when it raises or returns, and after leadership was lost and regained: it must then
        start over with all objects.
        """

    def plan(self, document: dict[str, Any]) -> Iterator[Plan]:
        """Yield what would be written to an object in its current state, ignoring randomness, caches and
        rates.

        `koordpy profile preview` shows it. Nothing is written, and there is no client.
        """
        yield from ()
