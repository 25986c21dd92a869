"""What the agent changed on its node, as documents: which value a file has, had and should have, and why."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from koordpy.agent.cgroups import values
from koordpy.agent.cgroups.changes import Change, Changes
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.undo import Restored
from koordpy.agent.cgroups.writer import GROUP
from koordpy.agent.interface.cgroups import CgroupError

_UID: Final = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def explain(
    files: CgroupFiles, changes: Changes, directory: str = "", left_alone: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the changes in a directory and all below it, what is paused, and what is left to others.

    The UID of a pod stands for its directory.

    Keys are camelCase; times are RFC 3339 in UTC. `changedByOthers` says that the file no longer has the
    value that the agent wrote.
    """
    found = [change for change in changes if _below(change.directory, directory)]
    return {
        "cgroupRoot": str(files.root),
        "changes": [_document(files, change) for change in found],
        "paused": [
            {
                "scope": pause.scope.value,
                "value": pause.value,
                "since": _time(pause.since),
                "untilRestart": pause.until_restart,
            }
            for pause in changes.pauses
        ],
        "leftAlone": dict(left_alone or {}),
    }


def directory_of(files: CgroupFiles, target: str) -> str:
    """Return the directory that a path means: an absolute one, or one below a subsystem's root."""
    path = target.rstrip("/")
    root = str(files.root).rstrip("/")
    if path.startswith(f"{root}/"):
        path = path[len(root) + 1 :]
        if not files.unified:
            path = path.partition("/")[2]
    return path.strip("/")


def outcome(result: Restored) -> dict[str, Any]:
    """Return what became of an undone change."""
    change = result.change
    return {
        "resource": change.resource,
        "directory": change.directory,
        "part": change.part,
        "original": change.original,
        "written": change.written,
        "current": result.current,
        "plugin": change.plugin,
        "outcome": result.outcome.value,
        "error": result.error,
    }


def _document(files: CgroupFiles, change: Change) -> dict[str, Any]:
    current: str | None = None
    others = False
    if change.resource != GROUP:
        line = files.resource(change.resource)
        try:
            content = files.read_raw(change.resource, change.directory)
        except CgroupError:
            pass
        else:
            current = values.part_of(line, files.version, content, change.part)
            ours = (change.written, change.requested)
            others = not any(values.same(line, files.version, content, text) for text in ours)
    return {
        "resource": change.resource,
        "directory": change.directory,
        "part": change.part,
        "original": change.original,
        "written": change.written,
        "current": current,
        "changedByOthers": others,
        "plugin": change.plugin,
        "reason": change.reason,
        "formula": change.formula,
        "firstChanged": _time(change.first),
        "lastChanged": _time(change.last),
    }


def _below(directory: str, parent: str) -> bool:
    if not parent or directory == parent or directory.startswith(f"{parent}/"):
        return True
    if _UID.fullmatch(parent) is None:
        return False
    return any(f"pod{uid}" in directory for uid in (parent, parent.replace("-", "_")))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
