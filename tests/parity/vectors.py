"""Parity vectors: files of inputs with the answers that Koordinator's or Kubernetes' own code gave.

A file is named after its rule (`RULE.jsonl.gz`, `RULE.jsonl`, anything after the first dot is free) and has
one JSON object a line: `in`, `out` and mostly a `tag`. The module `tests.parity.rules.RULE` knows how to ask
our code the same question:

    def run(case_in, tag) -> object            our answer, in the shape of `out`
    def same(ours, expected, case_in) -> bool  optional; default: equal JSON values
    def accepts(tag, case_in) -> bool          optional; False for a line of something that is not built
    def group(tag, expected) -> str            optional; what a sample is spread over; default: the tag
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import json
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path
from typing import Any

SUFFIXES = (".jsonl.gz", ".jsonl")


class UnknownRule(LookupError):
    """No module of `tests.parity.rules` is named after the file."""


@dataclass(frozen=True)
class Line:
    """One vector. `text` is the line as it stands in the file, `number` counts from 1."""

    number: int
    text: str
    case_in: Any
    expected: Any
    tag: str | None


@dataclass(frozen=True)
class Mismatch:
    """A vector to which our answer is another one (or an exception, given as text)."""

    line: Line
    ours: Any

    def __str__(self) -> str:
        tag = f" ({self.line.tag})" if self.line.tag else ""
        asked = json.dumps(self.line.case_in, ensure_ascii=False, sort_keys=True)
        diff = unified_diff(_pretty(self.line.expected), _pretty(self.ours), "expected", "ours", lineterm="")
        return "\n".join((f"line {self.line.number}{tag}: in = {asked}", *diff))


@dataclass
class Result:
    """What running one file gave. `passed + len(mismatches)` lines were compared."""

    rule: str
    passed: int = 0
    not_applicable: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)

    def __str__(self) -> str:
        aside = f" ({self.not_applicable} not applicable)" if self.not_applicable else ""
        return f"{self.rule}: {self.passed}/{self.passed + len(self.mismatches)} passed{aside}"


class Rule:
    """A rule module, with the defaults filled in."""

    def __init__(self, name: str) -> None:
        module = f"{__package__}.rules.{name}"
        if not name.isidentifier() or importlib.util.find_spec(module) is None:
            raise UnknownRule(f"{name}: there is no rule of that name in tests/parity/rules")
        self.name = name
        self._module = importlib.import_module(module)
        self._same = getattr(self._module, "same", None)
        self._accepts = getattr(self._module, "accepts", None)
        self._group = getattr(self._module, "group", None)

    def accepts(self, line: Line) -> bool:
        """Return whether the line belongs to what is built."""
        return self._accepts is None or self._accepts(line.tag, line.case_in)

    def group(self, line: Line) -> str:
        """Return the group that the line belongs to in a sample."""
        return str(self._group(line.tag, line.expected)) if self._group is not None else line.tag or ""

    def check(self, line: Line) -> Mismatch | None:
        """Ask our code; return the mismatch if its answer is another one."""
        try:
            ours = self._module.run(line.case_in, line.tag)
            if self._same is None:
                same = equal(ours, line.expected)
            else:
                same = self._same(ours, line.expected, line.case_in)
        except Exception:
            return Mismatch(line, {"raised": traceback.format_exc(limit=-4).splitlines()})
        return None if same else Mismatch(line, ours)

    def run(self, path: Path) -> Result:
        """Run a file."""
        result = Result(self.name)
        for line in read(path):
            if not self.accepts(line):
                result.not_applicable += 1
            elif mismatch := self.check(line):
                result.mismatches.append(mismatch)
            else:
                result.passed += 1
        return result


def rule_name(path: Path) -> str:
    """Return the rule that a file of vectors belongs to: its name up to the first dot."""
    return path.name.split(".", 1)[0]


def has_rule(path: Path) -> bool:
    """Return whether a file holds vectors of a rule that we know."""
    known = Path(__file__).parent / "rules" / f"{rule_name(path)}.py"
    return path.name.endswith(SUFFIXES) and known.is_file()


def read(path: Path) -> Iterator[Line]:
    """Yield the vectors of a file."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as lines:
        for number, text in enumerate(lines, 1):
            if text.strip():
                vector = json.loads(text)
                yield Line(number, text.rstrip("\n"), vector["in"], vector["out"], vector.get("tag"))


def equal(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal: numbers by value, but a number is never a boolean."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


def _pretty(value: Any) -> list[str]:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, default=str).splitlines()
