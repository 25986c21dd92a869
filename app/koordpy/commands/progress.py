"""Progress of long work, on standard error: a bar on a terminal, elsewhere a line now and then.

Nothing is shown where the output is for programs and standard error is no terminal.
"""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console

from .output import Format

_EVERY: Final = 10.0
"""Seconds between two lines where there is no terminal."""


class Progress:
    """Shows how much of several runs is done, and how long the rest will probably take.

    `quiet` allows a bar alone, no lines. `seconds` is a clock.
    """

    def __init__(
        self,
        runs: int = 1,
        *,
        quiet: bool = False,
        to: Console | None = None,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._runs, self._quiet, self._seconds = runs, quiet, seconds
        self._to = Console(stderr=True, highlight=False) if to is None else to
        self._bar: Any = None
        self._done = -1
        self._began = self._shown = seconds()

    @classmethod
    def of(cls, output: Format, runs: int = 1) -> "Progress":
        """Return the progress for a command with this output format."""
        return cls(runs, quiet=output != "text")

    def __enter__(self) -> Self:
        self._began = self._shown = self._seconds()
        if self._to.is_terminal:
            from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[at]}"),
                TimeRemainingColumn(),
                TextColumn("left"),
            )
            self._bar = Bar(*columns, console=self._to, transient=True)
            self._bar.start()
            self._task = self._bar.add_task("", total=1.0, at="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def run(self, name: str) -> Callable[[float, str], None]:
        """Begin the next run; the result takes its share from 0 to 1, and what it is at."""
        self._done += 1
        number = self._done
        label = f"{name} ({number + 1} of {self._runs})" if self._runs > 1 else name

        def show(share: float, at: str) -> None:
            self._show(label, (number + min(max(share, 0.0), 1.0)) / self._runs, at)

        return show

    def _show(self, label: str, share: float, at: str) -> None:
        if self._bar is not None:
            self._bar.update(self._task, description=label, completed=share, at=at)
            return
        now = self._seconds()
        if self._quiet or now - self._shown < _EVERY:
            return
        self._shown = now
        left = f", about {lasting((now - self._began) * (1 - share) / share)} left" if share > 0 else ""
        self._to.print(f"{label}: {share:.0%}, {at}{left}", markup=False, soft_wrap=True)


def lasting(seconds: float) -> str:
    """Format a duration with a suitable unit: `8 s`, `1.5 min`, `2 h`, `3 d`."""
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}".replace(".0 ", " ")
    return f"{seconds:.0f} s"
