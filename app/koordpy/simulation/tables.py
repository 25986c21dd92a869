"""Tables of pods or nodes: CSV with a heading line, or JSON lines; possibly gzipped.

A cell of an amount is an expression: columns, units and numbers, joined by `*`, multiplied exactly.
"""

import csv
import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, TextIO

from koordpy.api.config_model import ConfigError

_UNITS: Final = {
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "Ki": Fraction(1 << 10),
    "Mi": Fraction(1 << 20),
    "Gi": Fraction(1 << 30),
}

Row = Mapping[str, Any]


def rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield every row with its place (`file:line`). Raises ConfigError for an invalid table, OSError."""
    opened: Any = gzip.open if path.suffix == ".gz" or _is_compressed(path) else open
    name = path.name.removesuffix(".gz")
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        try:
            if name.endswith(".csv"):
                yield from _csv(path, file)
            elif name.endswith((".jsonl", ".ndjson", ".json")):
                yield from _json_lines(path, file)
            else:
                raise ConfigError(f"{path}: expected a .csv or .jsonl file (.gz too)")
        except (UnicodeDecodeError, gzip.BadGzipFile, zlib.error, EOFError, csv.Error) as error:
            raise ConfigError(f"{path}: not a table: {error}") from None


def _is_compressed(path: Path) -> bool:
    """Return whether a file begins as gzip files do, whatever its name is."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def _csv(path: Path, file: TextIO) -> Iterator[tuple[str, Row]]:
    reader = csv.DictReader(file)
    for row in reader:
        place = f"{path}:{reader.line_num}"
        if None in row or None in row.values():
            raise ConfigError(f"{place}: expected {len(reader.fieldnames or ())} cells")
        yield place, row


def _json_lines(path: Path, file: TextIO) -> Iterator[tuple[str, Row]]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ConfigError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise ConfigError(f"{path}:{number}: got {line.strip()[:60]!r}, expected an object")
        yield f"{path}:{number}", row


def cell(row: Row, column: str, place: str) -> str:
    """Return a cell as text, empty if a JSON line does not have it. Raises ConfigError."""
    if column not in row:
        if any(isinstance(value, str) and name == column for name, value in row.items()):
            return ""
        raise ConfigError(f"{place}: no column {column!r}; columns: {', '.join(map(str, row))}")
    value = row[column]
    return "" if value is None else str(value).strip()


def seconds(row: Row, column: str, place: str) -> float:
    """Return a cell as a time. Raises ConfigError."""
    text = cell(row, column, place)
    try:
        found = float(text)
    except ValueError:
        raise ConfigError(f"{place}: {column}: got {text!r}, expected seconds") from None
    if not 0 <= found < 1e12:
        raise ConfigError(f"{place}: {column}: got {text!r}, expected seconds that are not negative")
    return found


def amount(row: Row, expression: str, place: str) -> str:
    """Evaluate an expression as a quantity; an empty cell counts as 0. Raises ConfigError."""
    product = Fraction(1)
    for part in map(str.strip, expression.split("*")):
        product *= _factor(row, part, place)
    milli = product * 1000
    if milli.denominator != 1:
        raise ConfigError(f"{place}: {expression}: {float(product)} is finer than a thousandth")
    return str(milli.numerator // 1000) if milli % 1000 == 0 else f"{milli.numerator}m"


def _factor(row: Row, part: str, place: str) -> Fraction:
    if part not in row:
        if part in _UNITS:
            return _UNITS[part]
        try:
            return Fraction(part)
        except ValueError:
            pass
    text = cell(row, part, place)
    if not text:
        return Fraction(0)
    try:
        found = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ConfigError(f"{place}: {part}: got {text!r}, expected a number") from None
    if found < 0:
        raise ConfigError(f"{place}: {part}: got {text!r}, expected a number that is not negative")
    return found
