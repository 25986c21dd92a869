"""The snapshot file: all objects as JSON lines, so that a demo survives a restart.

The first line is a head with the format and the revision; each further line is one object with kind and
apiVersion. The file is replaced atomically.
"""

import os
from pathlib import Path
from typing import Any

import msgspec

from .catalog import Catalog, Served
from .kinds.crds import Definitions
from .storage import Revisions, key_of

Document = dict[str, Any]

_FORMAT = "koordpy-apiserver-snapshot/1"


class SnapshotError(ValueError):
    """A file is not a snapshot; the message names the file and the line."""


class _Head(msgspec.Struct):
    format: str
    revision: int


def save(path: Path, catalog: Catalog, revisions: Revisions) -> None:
    """Write all objects to a file, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    with draft.open("wb") as file:
        file.write(msgspec.json.encode(_Head(_FORMAT, revisions.current)) + b"\n")
        for served in _storages(catalog):
            for record in served.table:
                file.write(served.prefix + record.raw[1:] + b"\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


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
