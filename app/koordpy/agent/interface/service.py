"""Long-running parts of the node agent that are no plugins: reporters, caches, informers."""

from typing import Protocol

from .flags import FlagSet


class Service(Protocol):
    """A part of the node agent. It is restarted with backoff when `run` raises or returns."""

    @property
    def name(self) -> str:
        """The name in logs, metrics and `/readyz`."""
        ...

    async def run(self) -> None:
        """Work until cancelled."""
        ...

    def not_ready(self) -> str | None:
        """Return why the agent is not ready because of it; None if it is."""
        ...


class DeclaresFlags(Protocol):
    """A type with flags: a plugin, or a service that has some."""

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare flags. Called once, before the command line is read and anything is constructed."""
        ...
