"""The snapshot file: all objects as JSON lines, so that a demo survives a restart.

The first line is a head with the format and the revision; each further line is one object with kind and
apiVersion. The file is replaced atomically: where the new one cannot be written, the old one stays.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from .catalog import Catalog, Served
from .kinds.crds import Definitions
from .storage import Revisions, key_of

log = logging.getLogger(__name__)

Document = dict[str, Any]

_FORMAT = "koordpy-apiserver-snapshot/1"


class SnapshotError(ValueError):
    """A file is not a snapshot; the message names the file and the line."""


class _Head(msgspec.Struct):
    format: str
    revision: int


class Saver:
    """Writes the snapshot of a server, again and again until it succeeds.

    `problem` is why the last attempt failed, empty after a success.
    """

    def __init__(self, path: Path, catalog: Catalog, revisions: Revisions, interval: float) -> None:
        self.path = path
        self.problem = ""
        self._catalog = catalog
        self._revisions = revisions
        self._interval = interval
        self._saved = -1
        self._writing = threading.Lock()

    async def run(self) -> None:
        """Write the file whenever something changed, every `interval` seconds; failures are retried."""
        while True:
            await asyncio.sleep(self._interval)
            revision = self._revisions.current
            if revision != self._saved:
                lines = list(_lines(self._catalog, self._revisions))
                try:
                    await asyncio.to_thread(self._write, lines)
                except OSError as error:
                    self._failed(error)
                else:
                    self._succeeded(revision)

    def save(self) -> None:
        """Write the file now. A failure is logged, and in `problem`."""
        try:
            self._write(_lines(self._catalog, self._revisions))
        except OSError as error:
            self._failed(error)
        else:
            self._succeeded(self._revisions.current)

    def _write(self, lines: Iterable[bytes]) -> None:
        with self._writing:
            _write(self.path, lines)

    def _failed(self, error: OSError) -> None:
        problem = error.strerror or str(error)
        if problem != self.problem:
            log.error("snapshot %s: not written, the previous one stays, will retry: %s", self.path, problem)
        self.problem = problem

    def _succeeded(self, revision: int) -> None:
        if self.problem:
            log.info("snapshot %s: written again", self.path)
        self.problem = ""
        self._saved = revision


def _lines(catalog: Catalog, revisions: Revisions) -> Iterable[bytes]:
    yield msgspec.json.encode(_Head(_FORMAT, revisions.current)) + b"\n"
    for served in _storages(catalog):
        for record in served.table:
            yield served.prefix + record.raw[1:] + b"\n"


def _write(path: Path, lines: Iterable[bytes]) -> None:
    """Replace a file by one with the lines, after that is complete on disk. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def load(path: Path, catalog: Catalog, revisions: Revisions, definitions: Definitions) -> None:
    """Read all objects of a file into empty tables. Raises SnapshotError."""
    with path.open("rb") as file:
        try:
            head = msgspec.json.decode(file.readline(), type=_Head)
        except msgspec.MsgspecError as error:
            raise SnapshotError(f"{path}: line 1: {error}") from None
        if head.format != _FORMAT:
            raise SnapshotError(f"{path}: line 1: format {head.format!r}, expected {_FORMAT!r}")
        revisions.current = head.revision
        waiting: list[tuple[int, Document]] = []
        for number, line in enumerate(file, 2):
            try:
                document = msgspec.json.decode(line)
            except msgspec.DecodeError as error:
                raise SnapshotError(f"{path}: line {number}: {error}") from None
            if not _put(document, catalog):
                waiting.append((number, document))
    definitions.restore()
    for number, document in waiting:
        if not _put(document, catalog):
            kind = f"{document.get('apiVersion')} {document.get('kind')}"
            raise SnapshotError(f"{path}: line {number}: {kind} is not served")
    for served in _storages(catalog):
        served.table.compact()


def _storages(catalog: Catalog) -> list[Served]:
    found: dict[int, Served] = {}
    for served in catalog:
        if served.stored:
            found.setdefault(id(served.table), served)
    return list(found.values())


def _put(document: Document, catalog: Catalog) -> bool:
    group, _, version = document["apiVersion"].rpartition("/")
    for served in catalog.of(group, version) or ():
        if served.kind == document["kind"] and served.stored:
            del document["kind"], document["apiVersion"]
            metadata = document["metadata"]
            served.table.load(key_of(metadata.get("namespace", ""), metadata["name"]), document)
            return True
    return False
