"""Named liveness and readiness checks of a process."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Self

Check = Callable[[], str | None]
"""Returns None if healthy, else the reason, which may be a `Reason`."""


class Reason(str):
    """Why a check fails. Checks that fail for the same `cause` are reported together, with that cause.

    A reason that only `follows` from those of other checks is never what represents them.
    """

    cause: str
    follows: bool

    def __new__(cls, text: str, cause: str = "", *, follows: bool = False) -> Self:
        """Return a reason; without a `cause` its text is the cause."""
        made = super().__new__(cls, text)
        made.cause, made.follows = cause or text, follows
        return made


@dataclass(frozen=True)
class Cause:
    """A cause, the check that represents it, and the others that fail because of it."""

    text: str
    check: str
    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.others:
            return self.text
        waits = "1 more check waits" if len(self.others) == 1 else f"{len(self.others)} more checks wait"
        return f"{self.text}; {waits} for this: {', '.join(self.others)}"


class Health:
    """The checks of one process, by name; its parts add theirs.

    Checks return immediately. Slow probes are in `probes`: they are awaited before readiness is evaluated,
    and store their results for a check.
    """

    def __init__(self) -> None:
        self.probes: list[Callable[[], Awaitable[object]]] = []
        self.live: dict[str, Check] = {"ping": lambda: None}
        self.ready: dict[str, Check] = {"ping": lambda: None}

        self.notes: dict[str, Callable[[], str]] = {}
        """What the verbose output says of checks that pass, such as what a part waits for."""

    def failures(self, checks: Mapping[str, Check]) -> dict[str, str]:
        """Return the names of failing checks with their reasons."""
        found = {name: check() for name, check in checks.items()}
        return {name: reason for name, reason in found.items() if reason is not None}

    def report(
        self,
        name: str,
        checks: Mapping[str, Check],
        *,
        verbose: bool = False,
        exclude: Collection[str] = (),
    ) -> tuple[bool, str]:
        """Return whether all checks but the excluded ones pass, and the text that says so, as Kubernetes'."""
        chosen = {each: check for each, check in checks.items() if each not in exclude}
        failed = self.failures(chosen)
        if not failed and not verbose:
            return True, "ok"
        found = {cause.check: cause for cause in causes(failed)}
        lines = [
            f"[-]{each} failed: {found[each]}" if each in found else f"[+]{each} ok{self._note(each)}"
            for each in chosen
            if each in found or each not in failed
        ]
        lines += [f"[+]{each} excluded: ok" for each in exclude if each in checks]
        lines.append(f"{name} check {'failed' if failed else 'passed'}")
        return not failed, "\n".join(lines) + "\n"

    def _note(self, name: str) -> str:
        note = self.notes[name]() if name in self.notes else ""
        return f": {note}" if note else ""


def causes(failures: Mapping[str, str]) -> list[Cause]:
    """Return each cause of failing checks once, in the order of the checks that represent them."""
    groups: dict[str, list[str]] = {}
    for name, reason in failures.items():
        groups.setdefault(reason.cause if isinstance(reason, Reason) else reason, []).append(name)
    found = []
    for cause, names in groups.items():
        first = next((name for name in names if not _follows(failures[name])), names[0])
        text = str(failures[first]) if len(names) == 1 or _follows(failures[first]) else cause
        found.append(Cause(text, first, tuple(name for name in names if name != first)))
    order = list(failures)
    return sorted(found, key=lambda cause: order.index(cause.check))


def _follows(reason: str) -> bool:
    return isinstance(reason, Reason) and reason.follows
