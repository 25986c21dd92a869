"""The state of the sources that a figure belongs to."""

import subprocess
from functools import cache
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[1]

_OWN_OUTPUT = (":!bench/results", ":!docs", ":!README.md")
"""What a benchmark writes itself, or what says nothing about how fast anything is."""


class Provenance(msgspec.Struct, frozen=True):
    """A commit, and whether files differed from it. The commit is empty where it is not known."""

    commit: str = ""
    dirty: bool = False

    def __str__(self) -> str:
        if not self.commit:
            return "commit unknown"
        return f"`{self.commit[:9]}`{' with uncommitted changes' if self.dirty else ''}"


@cache
def this() -> Provenance:
    """Return the state of this checkout when it is first asked for, before anything is measured."""
    return of(ROOT)


def of(checkout: Path) -> Provenance:
    """Return the state of a checkout; unknown where it is none, or git is not there."""
    try:
        commit = _git(checkout, "rev-parse", "HEAD").strip()
        changed = _git(checkout, "status", "--porcelain", "--", ".", *_OWN_OUTPUT)
    except (OSError, subprocess.CalledProcessError):
        return Provenance()
    return Provenance(commit, bool(changed.strip()))


def _git(checkout: Path, *arguments: str) -> str:
    command = ["git", "-C", str(checkout), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
