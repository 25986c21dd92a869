"""What a plugin may provide besides extension points: controllers, and a REST API."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol


class Controller(Protocol):
    """A loop that a plugin wants to run in the process that leads."""

    name: str

    async def run(self) -> None:
        """Run until cancelled."""
        ...


class ControllerProvider:
    """A plugin with controllers."""

    def controllers(self) -> Sequence[Controller]:
        """Return them; called once per plugin name and process."""
        raise NotImplementedError


class APIService:
    """A plugin with a read-only REST API under `/apis/v1/plugins/<name>/`."""

    def endpoints(self) -> Mapping[str, Callable[..., object]]:
        """Return functions by path template (`node/{node_name}`).

        Path parameters arrive as keyword arguments; the result is encoded as JSON; LookupError is a 404.
        """
        raise NotImplementedError
