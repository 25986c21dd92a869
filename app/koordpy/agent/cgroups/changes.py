"""What the agent changed on its node: for each file its original value, the latest one, who, when and why.

The changes are remembered in a folder, so that they can be explained and undone after a restart of the agent,
and while it is stopped. The folder has

* `changes.jsonl`, to which a line is appended *before* a file is written for the first time or with another
  value; it is rewritten when most of its lines are out of date;
* `pauses.json`, what the agent must leave alone because somebody undid it;
* `lock`, which is held by whoever changes either of them or a file of the node.

A change belongs to one boot of the machine and to one cgroup: a group of the same name that was made later is
another one.
"""

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from koordpy.agent.cgroups.pauses import Pauses

log = logging.getLogger(__name__)

Key = tuple[str, str, str]
"""Resource, directory, and the part of the file: a device, a line; "" is all of it."""

MAX_CHANGES: Final = 32768
"""More files than this are not written: 250 pods need less than a third of it."""

SET_ASIDE: Final = ".set-aside"
"""The ending of a copy of a file that could not be read."""

_MAX_TEXT: Final = 400
_COMPACT_BYTES: Final = 512 * 1024
_VERSION: Final = 1


class ChangesError(OSError):
    """What was changed cannot be remembered or read; the message names the file and why."""


class LockedError(ChangesError):
    """Somebody else is undoing changes right now."""


@dataclass(frozen=True, slots=True)
class Change:
    """One file that the agent changed. Values have the form of this node's cgroup version."""

    resource: str
    directory: str
    part: str
    original: str
    written: str
    """What the file said after it was written last."""
    requested: str
    """The text that was written last; the kernel may round it."""
    plugin: str
    reason: str
    formula: str
    first: float
    """When it was changed first, in seconds after the epoch."""
    last: float
    """When it was changed last."""
    identity: int = 0
    """What tells the cgroup, or the process, from a later one of the same name; 0: nothing does."""
    previous: str = ""
    """The agent's value before the last one, "" without one: it may have been killed between the two."""

    @property
    def key(self) -> Key:
        """What the change is of."""
        return self.resource, self.directory, self.part


@dataclass(frozen=True)
class Place:
    """The roots of the files that were changed, so that they can be undone without any configuration."""

    cgroup_root: str
    version: int
    proc_root: str
    sys_root: str
    audit_dir: str = ""
    """The folder of the audit log, "" without one."""
    sys_fs_root: str = ""
    """"" is the folder fs of `sys_root`."""


class Changes:
    """The remembered changes. Without a folder they last as long as this object.

    Several processes may use one folder: `exclusive` is needed for changing anything, and reads what others
    wrote since.
    """

    def __init__(self, folder: Path | None = None, place: Place | None = None, *, boot: str = "") -> None:
        self.folder = folder
        self.place = place
        self.pauses = Pauses()
        self._boot = boot
        self._changes: dict[Key, Change] = {}
        self._bytes = 0
        self._seen: tuple[int, ...] = ()
        self._lock = -1
        self._depth = 0
        self._unsaved = False
        """Whether the file lacks something: then it is rewritten with the next change."""
        self.generation = 0
        """Grows when somebody else changed something: then nothing that was cached holds any more."""
        if folder is not None:
            self._open(folder)

    def __iter__(self) -> Iterator[Change]:
        """Yield all changes, by directory and resource."""
        yield from sorted(self._changes.values(), key=lambda change: (change.directory, change.resource))

    def __len__(self) -> int:
        return len(self._changes)

    def get(self, key: Key) -> Change | None:
        """Return the change of a file; None if it was not changed."""
        return self._changes.get(key)

    @contextmanager
    def exclusive(self, *, wait: bool = False) -> Iterator[None]:
        """Keep others from changing anything. Raises LockedError if somebody does, unless told to wait."""
        if self._lock < 0 or self._depth:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            raise LockedError(f"{self.folder}: changes are being undone") from None
        self._depth = 1
        try:
            self._refresh()
            yield
            self._seen = self._stamp()
        finally:
            self._depth = 0
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def put(self, change: Change) -> None:
        """Remember a change, before it happens.

        Where the file cannot be written the change is remembered in memory, because a full disk must not keep
        the agent from protecting pods. Raises ChangesError for too many changes.
        """
        if change.key not in self._changes and len(self._changes) >= MAX_CHANGES:
            raise ChangesError(f"{len(self._changes)} files were changed already; no more can be remembered")
        if len(change.formula) > _MAX_TEXT or len(change.reason) > _MAX_TEXT:
            change = replace(change, formula=change.formula[:_MAX_TEXT], reason=change.reason[:_MAX_TEXT])
        self._changes[change.key] = change
        self._save(asdict(change))

    def forget(self, key: Key) -> None:
        """Drop a change: its file has its original value again, or is gone."""
        if self._changes.pop(key, None) is not None:
            self._save({"forget": list(key)})

    def save_pauses(self) -> None:
        """Write down what is paused. Raises ChangesError."""
        if self.folder is not None:
            self._replace("pauses.json", self.pauses.to_json())

    def refresh(self) -> None:
        """Read what other processes wrote; without waiting for them."""
        with suppress(LockedError), self.exclusive():
            pass

    # --- files -----------------------------------------------------------------------------------

    def _open(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ChangesError(f"cannot remember changes in {folder}: {error.strerror}") from None
        with self.exclusive(wait=True):
            pass

    def close(self) -> None:
        """Give up the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _stamp(self) -> tuple[int, ...]:
        """Return what changes when another process writes one of the files."""
        stamp: list[int] = []
        for name in ("changes.jsonl", "pauses.json"):
            try:
                found = os.stat(f"{self.folder}/{name}")
                stamp += (found.st_ino, found.st_size, found.st_mtime_ns)
            except FileNotFoundError:
                stamp += (0, 0, 0)
        return tuple(stamp)

    def _refresh(self) -> None:
        stamp = self._stamp()
        if stamp == self._seen:
            return
        self.generation += 1
        self._read_changes()
        self._read_pauses()
        self._seen = self._stamp()

    def _read_changes(self) -> None:
        """Read the file; a line that a crash cut off is dropped with the next rewrite.

        What is in memory alone is kept where the file is missing or could not be written.
        """
        if self._unsaved:
            self._save({})
            return
        try:
            data = Path(f"{self.folder}/changes.jsonl").read_bytes()
        except FileNotFoundError:
            self._rewrite()
            return
        except OSError as error:
            raise ChangesError(f"cannot read {self.folder}/changes.jsonl: {error.strerror}") from None
        self._changes = {}
        lines = data.split(b"\n")
        broken = lines.pop() != b""
        header = _decoded(lines[0]) if lines else None
        if header is None or header.get("version") != _VERSION:
            self._set_aside("is damaged or of another version of koordpy; it starts anew", data)
            self._rewrite()
            return
        if self._boot and header.get("boot") != self._boot:
            log.info("the node was restarted: what was changed before has its original values")
            self._rewrite()
            return
        if self.place is None:
            with suppress(TypeError, KeyError):
                place = Place(**header["place"])
                if _has_types(place):
                    self.place = place
        elif header.get("place") != asdict(self.place):
            broken = True
        unreadable = sum(not self._read_line(_decoded(line)) for line in lines[1:])
        if unreadable:
            self._set_aside(f"has {unreadable} lines that cannot be read; the others count", data)
            broken = True
        self._bytes = len(data)
        if broken:
            self._rewrite()

    def _read_line(self, line: dict[str, Any] | None) -> bool:
        if line is None:
            return False
        try:
            if "forget" in line:
                resource, directory, part = line["forget"]
                self._changes.pop((resource, directory, part), None)
            else:
                change = Change(**line)
                if not _is_sound(change):
                    return False
                self._changes[change.key] = change
        except (TypeError, ValueError):
            return False
        return True

    def _set_aside(self, reason: str, data: bytes) -> None:
        """Keep a copy of a file that cannot be read, because it has original values."""
        copy = f"changes.jsonl{SET_ASIDE}"
        log.warning("%s/changes.jsonl %s; it is kept as %s", self.folder, reason, copy)
        try:
            self._replace(copy, data)
        except ChangesError as error:
            log.warning("%s", error)

    def _read_pauses(self) -> None:
        try:
            self.pauses = Pauses.from_json(Path(f"{self.folder}/pauses.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            self.pauses = Pauses()
        except (OSError, ValueError) as error:
            # Nobody can tell what was undone. Leaving everything alone is what can be mended.
            log.error("cannot read %s/pauses.json, nothing is changed on this node: %s", self.folder, error)
            self.pauses = Pauses.everything()

    def _save(self, line: dict[str, Any]) -> None:
        """Append a line, or rewrite the file if it lacks something."""
        if self.folder is None:
            return
        try:
            if self._unsaved:
                self._rewrite()
            else:
                self._append(line)
        except ChangesError as error:
            if not self._unsaved:
                log.error("changes are remembered in memory alone until this is mended: %s", error)
            self._unsaved = True
        else:
            self._unsaved = False

    def _append(self, line: dict[str, Any]) -> None:
        data = json.dumps(line, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        if self._bytes + len(data) > max(_COMPACT_BYTES, 1024 * len(self._changes)):
            self._rewrite()
            return
        path = f"{self.folder}/changes.jsonl"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            try:
                if os.write(descriptor, data) != len(data):
                    raise ChangesError(f"cannot write {path}: no space is left")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise ChangesError(f"cannot write {path}: {error.strerror or error}") from None
        self._bytes += len(data)

    def _rewrite(self) -> None:
        header: dict[str, Any] = {"version": _VERSION, "boot": self._boot}
        if self.place is not None:
            header["place"] = asdict(self.place)
        lines = [header, *(asdict(change) for change in self._changes.values())]
        text = "".join(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n" for line in lines)
        self._bytes = self._replace("changes.jsonl", text)

    def _replace(self, name: str, content: str | bytes) -> int:
        """Replace a file at once; return its size."""
        path, data = f"{self.folder}/{name}", content.encode() if isinstance(content, str) else content
        try:
            os.makedirs(f"{self.folder}", mode=0o700, exist_ok=True)
            with open(f"{path}.new", "wb", opener=_private) as file:
                file.write(data)
            os.replace(f"{path}.new", path)
        except OSError as error:
            raise ChangesError(f"cannot write {path}: {error.strerror}") from None
        return len(data)


def boot_id(proc_root: Path = Path("/proc")) -> str:
    """Return the id of this boot of the machine; "" if it cannot be read."""
    try:
        return (proc_root / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _is_sound(change: Change) -> bool:
    """Return whether a change that was read is one that can have been written."""
    return _has_types(change) and ".." not in change.directory.split("/")


def _has_types(found: Any) -> bool:
    """Return whether the fields of a dataclass have their types; a float may be a whole number."""
    return all(
        isinstance(getattr(found, each.name), (int, float) if each.type is float else each.type)  # type: ignore[arg-type]
        for each in fields(found)
    )
