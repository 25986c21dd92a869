"""Files that change atomically: readers of a folder see all of the old ones or all of the new ones.

The files are in a separate folder, `..data` is a symbolic link to it, and the visible names are links through
`..data`. Publishing creates a new folder and swaps that link. A reader that opens several names meanwhile may
still get a mix; it detects that (a key that does not match) and reads again.

The layout is that of projected volumes: Kubernetes, `pkg/volume/util/atomic_writer.go`.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

DATA: Final = "..data"


def publish(
    directory: Path, files: Mapping[str, bytes], now: datetime, *, private: Collection[str] = ()
) -> bool:
    """Publish these contents under these names in a folder; return whether anything was written.

    Other names in the folder are not changed. Equal contents are not written again. Files named in `private`
    are readable by their owner only. Concurrent publishers of one folder are serialized by a lock. Raises
    OSError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with _alone(directory):
        if read(directory, files) == files and all(_is_link(directory, name) for name in files):
            return False
        fresh = Path(tempfile.mkdtemp(prefix=f"..{now:%Y_%m_%d_%H_%M_%S}.", dir=directory))
        for name, content in files.items():
            mode = 0o600 if name in private else 0o644
            with os.fdopen(os.open(fresh / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
        fresh.chmod(0o755)
        _link(directory / DATA, fresh.name)
        for name in files:
            if not _is_link(directory, name):
                _link(directory / name, f"{DATA}/{name}")
        for old in directory.glob("..[0-9]*"):
            if old != fresh and not old.is_symlink():
                shutil.rmtree(old, ignore_errors=True)
    return True


def read(directory: Path, names: Collection[str]) -> dict[str, bytes]:
    """Return the contents of the existing names."""
    found = {}
    for name in names:
        try:
            found[name] = (directory / name).read_bytes()
        except FileNotFoundError:
            continue
    return found


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # which also releases the lock


def _is_link(directory: Path, name: str) -> bool:
    path = directory / name
    return path.is_symlink() and path.readlink() == Path(DATA, name)


def _link(path: Path, target: str) -> None:
    """Replace any file or link of that name with a symbolic link."""
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(path)
