"""Named liveness and readiness checks of a process."""

from collections.abc import Awaitable, Callable, Mapping

Check = Callable[[], str | None]
"""Returns None if healthy, else the reason."""


class Health:
    """The checks of one process, by name; its parts add theirs.

    Checks return immediately. Slow probes are in `probes`: they are awaited before readiness is evaluated,
    and store their results for a check.
    """

    def __init__(self) -> None:
        self.probes: list[Callable[[], Awaitable[object]]] = []
        self.live: dict[str, Check] = {"ping": lambda: None}
        self.ready: dict[str, Check] = {"ping": lambda: None}

    def failures(self, checks: Mapping[str, Check]) -> dict[str, str]:
        """Return the names of failing checks with their reasons."""
        found = {name: check() for name, check in checks.items()}
        return {name: reason for name, reason in found.items() if reason is not None}
