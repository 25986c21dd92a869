"""Dumps of clusters: files of kubectl, folders of them, and scenarios that `koordpy record` wrote."""

import codecs
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from koordpy.lib.text_documents import FILE, DocumentError, check_depth, read_all_yaml, read_json

from .objects import UnusableDump

SUFFIXES: Final = (".json", ".yaml", ".yml")
"""Of the files of a folder, which may also be compressed (`.json.gz`)."""

_GAP: Final = 64
"""Spaces and line ends between two documents of JSON, at most."""

_COMPRESSED: Final = b"\x1f\x8b"

SCENARIO: Final = "Scenario"

Placed = tuple[str, dict[str, Any]]
"""An object with its place: file, and number of the document and of the item."""


def read(path: Path) -> Iterator[Placed]:
    """Yield the objects of a file or folder. Raises UnusableDump, OSError."""
    if not path.is_dir():
        yield from read_text(path.read_bytes(), str(path), path.parent)
        return
    files = sorted(
        file
        for file in path.rglob("*")
        if file.name.removesuffix(".gz").endswith(SUFFIXES) and file.is_file()
    )
    if not files:
        raise UnusableDump(f"{path}: no file ends in {', '.join(SUFFIXES)}; expected dumps of kubectl")
    for file in files:
        yield from read_text(file.read_bytes(), str(file), file.parent)


def read_text(text: bytes, name: str, folder: Path) -> Iterator[Placed]:
    """Yield the objects of a text, which has the name in errors. Raises UnusableDump, OSError.

    It may be compressed by gzip, and in UTF-8 or UTF-16 (as PowerShell writes it).
    """
    try:
        found = _decoded(_as_utf8(_expanded(text)))
    except DocumentError as error:
        raise UnusableDump(f"{name}: neither JSON nor YAML: {error}") from None
    for number, document in enumerate(found, start=1):
        if document is None:
            continue
        place = name if len(found) == 1 else f"{name}, document {number}"
        if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
            raise UnusableDump(f"{place}: got {str(document)[:60]!r}, expected an object with a kind")
        if document["kind"] == SCENARIO:
            yield from _recorded(document, place, folder)
        elif document["kind"].endswith("List"):
            yield from _items(document, place)
        else:
            yield place, document


def _decoded(text: bytes) -> list[Any]:
    """Return the documents of a text; JSON is parsed as JSON, because YAML parsers are slow."""
    if text.lstrip()[:1] == b"{":
        try:
            return [read_json(text)]
        except DocumentError:
            found = _one_after_the_other(text)
            if found:
                return found
    return read_all_yaml(text)


def _one_after_the_other(text: bytes) -> list[Any]:
    """Return JSON documents that follow each other, as several commands print them; [] if it is not so."""
    decoder, found = json.JSONDecoder(), list[Any]()
    try:
        rest = text.decode()
        at = len(rest) - len(rest.lstrip())
        while at < len(rest):
            document, at = decoder.raw_decode(rest, at)
            check_depth(document, FILE.depth)
            found.append(document)
            at += len(rest[at : at + _GAP]) - len(rest[at : at + _GAP].lstrip())
    except (ValueError, RecursionError):
        return []
    return found


def _expanded(text: bytes) -> bytes:
    """Return a text that may be compressed. Raises DocumentError."""
    if not text.startswith(_COMPRESSED):
        return text
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(text)) as file:
            plain = file.read(FILE.size + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DocumentError(f"compressed, and damaged: {error}") from None
    if len(plain) > FILE.size:
        raise DocumentError(f"more than {FILE.size} bytes when expanded")
    return plain


def _as_utf8(text: bytes) -> bytes:
    """Return a text in UTF-8 without a byte order mark. Raises DocumentError."""
    if text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return text.decode("utf-16").encode()
        except UnicodeError as error:
            raise DocumentError(str(error)) from None
    return text.removeprefix(codecs.BOM_UTF8)


def _items(document: dict[str, Any], place: str) -> Iterator[Placed]:
    """Yield the items of a list; those of a typed list (`PodList`) need not name their kind."""
    items = document.get("items")
    if items is None:
        return
    if not isinstance(items, list):
        raise UnusableDump(f"{place}: items: got {str(items)[:60]!r}, expected a list")
    kind = document["kind"].removesuffix("List")
    implied = {"apiVersion": document.get("apiVersion", ""), "kind": kind} if kind else {}
    for number, item in enumerate(items):
        where = f"{place}, items[{number}]"
        whole = {**implied, **item} if isinstance(item, dict) else {}
        if not isinstance(whole.get("kind"), str):
            raise UnusableDump(f"{where}: got {str(item)[:60]!r}, expected an object with a kind")
        yield where, whole


def _recorded(scenario: dict[str, Any], place: str, folder: Path) -> Iterator[Placed]:
    """Yield the nodes, the other objects and the pods at the start of a recording."""
    for number, node in enumerate(scenario.get("nodes") or []):
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            raise UnusableDump(f"{place}, nodes[{number}]: expected a node with a name")
        if "joins" in node:
            continue
        metadata = {"name": node["name"]}
        metadata |= {key: node[key] for key in ("labels", "annotations") if key in node}
        status = {"allocatable": node.get("allocatable") or {}}
        yield (
            f"{place}, nodes[{number}]",
            {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status},
        )
    for number, source in enumerate(scenario.get("objects") or []):
        manifest = source.get("manifest") if isinstance(source, dict) else None
        if isinstance(manifest, dict):
            yield f"{place}, objects[{number}]", manifest
    for workload in scenario.get("workloads") or []:
        trace = workload.get("trace") if isinstance(workload, dict) else None
        if not isinstance(trace, dict) or not isinstance(trace.get("file"), str):
            raise UnusableDump(f"{place}: a workload without a table; expected what `koordpy record` writes")
        yield from _rows(folder / trace["file"])


def _rows(table: Path) -> Iterator[Placed]:
    """Yield the pods of a recording's table that were there at its start."""
    with table.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = read_json(line)
            except DocumentError as error:
                raise UnusableDump(f"{table}, line {number}: not JSON: {error}") from None
            pod = row.get("pod") if isinstance(row, dict) else None
            if not isinstance(pod, dict):
                got = json.dumps(row)[:60]
                raise UnusableDump(f"{table}, line {number}: got {got!r}, expected a row with a pod")
            if not row.get("arrival"):
                yield f"{table}, line {number}", {"apiVersion": "v1", "kind": "Pod", **pod}
