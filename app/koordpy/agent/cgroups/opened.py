"""Where the agent remembers what it changed on a node, and how the commands find it again."""

import zlib
from pathlib import Path
from typing import Final

from koordpy.agent.cgroups.changes import Changes, ChangesError, Place, boot_id
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.table import Version

FOLDER: Final = "/var/run/koordlet/changes"
"""The default of the flag `changes-dir`; it is not kept when the node restarts, as cgroups are not either."""


def on_node(folder: str, files: CgroupFiles, audit_dir: str = "") -> Changes:
    """Return the changes of a node's files, for its agent.

    Without a folder, or in the default one for files that are no kernel's, they last as long as the process.
    Raises ChangesError.
    """
    if not folder or (folder == FOLDER and not _is_kernel(files.root.resolve())):
        return Changes()
    place = Place(
        cgroup_root=str(files.root),
        version=files.version.value,
        proc_root=str(files.proc_root),
        sys_root=str(files.sys_root),
        audit_dir=audit_dir,
        sys_fs_root=str(files.sys_fs_root),
    )
    name = f"{zlib.crc32(str(files.root.resolve()).encode()):08x}"
    return Changes(Path(folder) / name, place, boot=boot_id(files.proc_root))


def remembered(folder: Path) -> list[tuple[CgroupFiles, Changes]]:
    """Return what agents remembered in a folder, with the files that they changed. Raises ChangesError."""
    found = []
    for each in sorted(folder.glob("*/changes.jsonl")):
        changes = Changes(each.parent, boot=boot_id())
        place = changes.place
        if place is None:
            changes.close()
            continue
        files = CgroupFiles(
            Path(place.cgroup_root),
            Version(place.version),
            proc_root=Path(place.proc_root),
            sys_root=Path(place.sys_root),
            sys_fs_root=Path(place.sys_fs_root) if place.sys_fs_root else None,
        )
        found.append((files, changes))
    if not found:
        raise ChangesError(f"{folder} has no changes of a node agent; --changes-dir names another folder")
    return found


def _is_kernel(root: Path) -> bool:
    """Return whether a folder is, or has, a mounted cgroup file system."""
    try:
        lines = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    mounts = [Path(words[1]) for line in lines if (words := line.split())[2:3] in (["cgroup"], ["cgroup2"])]
    return any(mount == root or mount in root.parents or root in mount.parents for mount in mounts)
