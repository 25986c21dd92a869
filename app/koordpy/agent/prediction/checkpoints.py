"""Checkpoints of models: a JSON file each, named by the model's key, as koordlet writes and reads them."""

import json
import logging
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import msgspec

from koordpy.api.meta import format_time

from .histogram import ZERO_TIME, CheckpointError, DecayingHistogram, nanoseconds, time_of
from .models import Model, Models

log = logging.getLogger(__name__)

TEMPORARY: Final = ".tmp"
_LARGEST_FILE: Final = 1 << 20
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")

_Weight = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class _Histogram(msgspec.Struct, rename="camel", omit_defaults=True):
    reference_timestamp: datetime = ZERO_TIME
    bucket_weights: dict[int, _Weight] | None = None
    total_weight: float = 0.0


class _Checkpoint(msgspec.Struct):
    uid: str = msgspec.field(default="", name="UID")
    cpu: _Histogram | None = msgspec.field(default=None, name="CPU")
    memory: _Histogram | None = msgspec.field(default=None, name="Memory")
    last_updated: datetime | None = msgspec.field(default=None, name="LastUpdated")


class Checkpoints:
    """The files of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, key: str, model: Model, now: datetime) -> None:
        """Write a model's file, all or nothing. Raises OSError."""
        document = {
            "UID": key,
            "CPU": _saved(model.cpu),
            "Memory": _saved(model.memory),
            "LastUpdated": format_time(now),
        }
        path = self._path(key)
        temporary = path.with_name(path.name + TEMPORARY)
        temporary.write_text(json.dumps(document, separators=(",", ":")) + "\n")
        temporary.replace(path)

    def remove(self, key: str) -> None:
        """Remove a model's file, if it has one. Raises OSError."""
        self._path(key).unlink(missing_ok=True)

    def restore(self, models: Models, known: set[str]) -> list[str]:
        """Load the files of known keys; return the names of all others, which are of no use.

        A file that cannot be decoded counts as one of an unknown key; a histogram that is not valid leaves
        its part of the model empty. Unfinished files are removed.
        """
        unknown: list[str] = []
        for name, content in self._files():
            checkpoint = _decoded(content)
            if checkpoint is None or name not in known:
                if name in known:
                    log.warning(
                        "checkpoint %s cannot be read, its model starts anew: %.80r",
                        self.folder / name,
                        content,
                    )
                unknown.append(name)
                continue
            model = models.new()
            model.last_updated = _nanoseconds(checkpoint.last_updated or ZERO_TIME)
            for part, histogram, saved in (
                ("CPU", model.cpu, checkpoint.cpu),
                ("Memory", model.memory, checkpoint.memory),
            ):
                try:
                    _load(histogram, saved)
                except CheckpointError as error:
                    log.warning("checkpoint %s: %s: %s", self.folder / name, part, error)
            models.by_key[name] = model
        return unknown

    def _files(self) -> Iterator[tuple[str, str]]:
        try:
            entries = sorted(os.scandir(self.folder), key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        for entry in entries:
            if not entry.is_file(follow_symlinks=False):
                continue
            try:
                if entry.name.endswith(TEMPORARY):
                    os.unlink(entry.path)
                    continue
                with open(entry.path, "rb") as file:
                    yield entry.name, file.read(_LARGEST_FILE).decode(errors="replace")
            except OSError as error:
                log.warning("checkpoint %s: %s", entry.path, error)

    def _path(self, key: str) -> Path:
        if not _SAFE_NAME.fullmatch(key):
            raise OSError(f"checkpoint of {key!r}: expected a UID of letters, digits, '-', '_' and '.'")
        return self.folder / key


def _saved(histogram: DecayingHistogram) -> dict[str, object]:
    weights = {str(bucket): weight for bucket, weight in histogram.saved_weights().items()}
    saved: dict[str, object] = {"referenceTimestamp": _written(time_of(histogram.reference))}
    if weights:
        saved["bucketWeights"] = weights
    if histogram.total:
        saved["totalWeight"] = histogram.total
    return saved


def _written(time: datetime) -> str:
    text = time.astimezone(UTC).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"


def _decoded(content: str) -> _Checkpoint | None:
    try:
        document, _ = json.JSONDecoder().raw_decode(content.lstrip())
        return msgspec.convert(document, _Checkpoint, str_keys=True)
    except (ValueError, RecursionError):
        return None


def _load(histogram: DecayingHistogram, saved: _Histogram | None) -> None:
    if saved is None:
        raise CheckpointError("there is none")
    histogram.load(saved.bucket_weights or {}, saved.total_weight, _nanoseconds(saved.reference_timestamp))


def _nanoseconds(time: datetime) -> int:
    return nanoseconds(time if time.tzinfo is not None else time.replace(tzinfo=UTC))
