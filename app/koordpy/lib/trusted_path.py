"""Paths that no other user can have prepared.

A certificate, an authority or a key in a folder that another user made or may write to is that user's choice,
not ours. So before such files are read or written, every step on the way to them, links included, must
belong to root or to the user of this process, and no other user may write to it.

Three kinds of writable folders pass, because their contents are checked as well. In a sticky one (`/tmp`, and
the Secret volumes of Kubernetes, which are `root:fsGroup` and `1777`) others cannot replace what is not
theirs. An `emptyDir` volume, a mount point that is `0777`, belongs to one pod. A group that has no other
member (that of a user of Debian or Red Hat, or a pod's fsGroup) is no other user.

Source of the rule: OpenSSH, `misc.c` (`safe_path`), and Debian's `user-group-modes.patch`.
"""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_ROOT: Final = 0
_MAX_LINKS: Final = 40
"""Links on the way to a file; Linux follows no more."""


def problem(path: Path, uid: int | None = None) -> str:
    """Return why another user may control a file or folder, naming the step on its path, owner and mode.

    Empty if not, and if there is nothing at the path yet. `uid` is the trusted user besides root, by default
    that of the process. Raises OSError for a path that cannot be examined.
    """
    uid = os.geteuid() if uid is None else uid
    for step in _steps(path):
        try:
            found = step.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return ""
        owner, mode = _user(found.st_uid), f"mode {stat.S_IMODE(found.st_mode):04o}"
        if found.st_uid not in (_ROOT, uid):
            reason = f"belongs to {owner}, {mode}"
        elif _is_writable_by_others(step, found, uid):
            reason = f"is writable by other users (owner {owner}, {mode})"
        else:
            continue
        subject = str(path) if step == path else f"{path}: {step}"
        trusted = " or ".join(dict.fromkeys((_user(_ROOT), _user(uid))))
        return f"{subject} {reason}; expected owner {trusted} and no write access for others"
    return ""


def _steps(path: Path) -> Iterator[Path]:
    """Yield each folder and link that is passed on the way to a path, from the root, and the path itself."""
    current = Path("/")
    pending = list(reversed(Path(os.path.abspath(path)).parts[1:]))
    links = 0
    yield current
    while pending:
        name = pending.pop()
        if name == "..":
            current = current.parent
            continue
        step = current / name
        yield step
        if not step.is_symlink():
            current = step
            continue
        links += 1
        if links > _MAX_LINKS:
            raise OSError(f"{path}: too many levels of symbolic links")
        target = step.readlink()
        if target.is_absolute():
            current = Path("/")
        pending.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))


def _is_writable_by_others(step: Path, found: os.stat_result, uid: int) -> bool:
    if stat.S_ISLNK(found.st_mode) or not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return False
    if stat.S_ISDIR(found.st_mode) and (found.st_mode & stat.S_ISVTX or os.path.ismount(step)):
        return False
    return bool(found.st_mode & stat.S_IWOTH) or not _is_private(found.st_gid, uid)


def _is_private(gid: int, uid: int) -> bool:
    """Return whether a group of this process has no other user as a member."""
    if gid not in (os.getegid(), *os.getgroups()):
        return False
    own = _name(uid)
    try:
        members = grp.getgrgid(gid).gr_mem
    except KeyError:
        members = []  # a number without a name, such as the fsGroup of a pod
    primary = (entry for entry in pwd.getpwall() if entry.pw_gid == gid)
    return all(member == own for member in members) and all(e.pw_uid in (_ROOT, uid) for e in primary)


def _user(uid: int) -> str:
    name = _name(uid)
    return f"{name} (uid {uid})" if name else f"uid {uid}"


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return ""
