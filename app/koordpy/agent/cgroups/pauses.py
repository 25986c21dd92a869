"""What the agent must leave alone, because somebody undid it: everything, a plugin, or a part of the tree."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Final


class Scope(StrEnum):
    """What is paused."""

    ALL = "all"
    PLUGIN = "plugin"
    PATH = "path"


MAX_PAUSES: Final = 1024


@dataclass(frozen=True)
class Pause:
    """One thing that the agent leaves alone. The value is a plugin's name, or a directory with all below."""

    scope: Scope
    value: str = ""
    since: float = 0.0
    """When it was undone, in seconds after the epoch."""
    until_restart: bool = False
    """Whether it ends when the agent is started the next time."""

    def covers(self, plugin: str, directory: str) -> bool:
        """Return whether a plugin may not write in a directory."""
        if self.scope is Scope.ALL:
            return True
        if self.scope is Scope.PLUGIN:
            return plugin == self.value
        return not self.value or directory == self.value or directory.startswith(f"{self.value}/")

    def __str__(self) -> str:
        name = "everything" if self.scope is Scope.ALL else f"{self.scope} {self.value}"
        return f"{name} until the agent is restarted" if self.until_restart else name


class Pauses:
    """All that is paused."""

    def __init__(self, pauses: Iterable[Pause] = ()) -> None:
        self._pauses = {(pause.scope, pause.value): pause for pause in pauses}

    def __iter__(self) -> Iterator[Pause]:
        return iter(self._pauses.values())

    def __len__(self) -> int:
        return len(self._pauses)

    @classmethod
    def everything(cls) -> "Pauses":
        """Return a pause of everything."""
        return cls([Pause(Scope.ALL)])

    def add(self, pause: Pause) -> None:
        """Pause something. Raises ValueError if too much is paused one by one."""
        is_new = pause.scope is not Scope.ALL and (pause.scope, pause.value) not in self._pauses
        if is_new and len(self._pauses) >= MAX_PAUSES:
            raise ValueError(f"{MAX_PAUSES} paths are paused already; pause everything instead")
        self._pauses[pause.scope, pause.value] = pause

    def remove(self, scope: Scope, value: str = "") -> bool:
        """End a pause; removing that of everything ends all. Return whether there was one."""
        if scope is Scope.ALL:
            found = bool(self._pauses)
            self._pauses.clear()
            return found
        return self._pauses.pop((scope, value), None) is not None

    def end_with_restart(self) -> bool:
        """End the pauses that last until a restart; return whether there were some."""
        before = len(self._pauses)
        self._pauses = {key: pause for key, pause in self._pauses.items() if not pause.until_restart}
        return len(self._pauses) != before

    def covering(self, plugin: str, directory: str) -> Pause | None:
        """Return what keeps a plugin from writing in a directory; None if nothing does."""
        if not self._pauses:
            return None
        return next((pause for pause in self._pauses.values() if pause.covers(plugin, directory)), None)

    def to_json(self) -> str:
        """Return the pauses as JSON."""
        return json.dumps({"pauses": [asdict(pause) for pause in self._pauses.values()]})

    @classmethod
    def from_json(cls, text: str) -> "Pauses":
        """Read what `to_json` wrote. Raises ValueError."""
        try:
            entries = json.loads(text)["pauses"]
            return cls(Pause(**{**entry, "scope": Scope(entry["scope"])}) for entry in entries)
        except (TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ValueError(f"expected pauses with scope and value: {error}") from None
