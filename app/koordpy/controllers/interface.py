"""The interface of controllers: what they get, what they may do, and how they are called.

A controller is a class named by an entry point of group `koordpy.controllers`. It is constructed once with
its arguments and a `Handle`, set up before the cluster is followed, and run in the one process that leads.
"""

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from koordpy.api.plugin import BasePlugin, PluginArgs
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import Clock, SystemClock
from koordpy.lib.feature_gates import FeatureGates

from .queue import WorkQueue


@dataclass
class Handle:
    """What controllers may use: the cluster as it is known, writes, the gates, time and chance."""

    cluster: Cluster
    gates: FeatureGates
    connected: Client | None = None
    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random = field(default_factory=random.Random)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    @property
    def client(self) -> Client:
        """Writes to the API server. Raises RuntimeError where there is none: only `plan` works offline."""
        if self.connected is None:
            raise RuntimeError("this controller has no API server to write to")
        return self.connected

    def queue(self, name: str) -> WorkQueue:
        """Return a new queue, by the handle's clock."""
        return WorkQueue(name, self.clock)


@dataclass(frozen=True)
class Plan:
    """What a controller would do to an object, by the rule (a profile, say) called `subject`.

    `patch` is the JSON merge patch that it would send, empty where nothing differs. `problem` tells why it
    could not: then there is no patch.
    """

    subject: str
    patch: dict[str, Any]
    problem: str = ""


class Controller(BasePlugin, ABC):
    """A loop that brings objects to what other objects say.

    `name` is what `--controllers` calls it, and its entry point. `feature` is the gate that it needs, None
    for none. `needs` is what it cannot work without beyond the objects that it follows.
    """

    handle: Handle

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)

    def setup(self) -> None:
        """Get stores from the cluster, add indexes and subscribe; called once, before anything is listed.

        It is called in every process, leading or not; nothing may be written yet.
        """

    @abstractmethod
    async def run(self) -> None:
        """Work until cancelled; called when everything is listed and this process leads.

        It is called again when it raises or returns, and when the lead was lost and won again: it must then
        start over with all objects.
        """

    def plan(self, document: dict[str, Any]) -> Iterator[Plan]:
        """Yield what would be written to an object as it is now, leaving chance, caches and rates aside.

        `koordpy profile preview` shows it. Nothing is written, and no client is there.
        """
        yield from ()
