"""What is logged of scheduling attempts, switched while the process runs.

Names, values and answers are those of Koordinator's `/debug/flags` (`pkg/util/routes`,
`pkg/scheduler/frameworkext/debug.go` and `schedule_diagnosis.go`; for `v`: k8s.io/component-base/logs).
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
_NUMBER = re.compile(r"[+-]?[0-9]+")


class BadFlag(ValueError):
    """A value that a flag does not take; the message is the one that Koordinator answers with."""


@dataclass
class DebugFlags:
    """The switches. `top_scores` is how many of the best nodes are shown, 0 for no table."""

    top_scores: int = 0
    filter_failures: bool = False
    diagnosis: bool = False
    diagnosis_blocking: bool = False
    set_verbosity: Callable[[int], None] = lambda _: None

    def setters(self) -> dict[str, Callable[[str], str]]:
        """Return the flags by name: functions from a value to the answer. They raise BadFlag."""
        return {"d": self._d, "db": self._db, "f": self._f, "s": self._s, "v": self._v}

    def _s(self, text: str) -> str:
        self.top_scores = _integer("debugTopNScores", text, "Atoi", 64)
        return _done("debugTopNScores", text)

    def _f(self, text: str) -> str:
        self.filter_failures = _boolean(text)
        return _done("debugFilterFailure", text)

    def _d(self, text: str) -> str:
        self.diagnosis = _boolean(text)
        return _done("debugFilterFailure", text)  # the name is Koordinator's, for all three

    def _db(self, text: str) -> str:
        self.diagnosis_blocking = _boolean(text)
        return _done("debugFilterFailure", text)

    def _v(self, text: str) -> str:
        self.set_verbosity(_integer("klog.logging.verbosity", text, "ParseInt", 32))
        return _done("klog.logging.verbosity", text)


def _done(flag: str, text: str) -> str:
    return f"successfully set {flag} to {text}"


def _boolean(text: str) -> bool:
    if text not in _BOOLEANS:
        raise _bad("debugFilterFailure", text, "ParseBool", "invalid syntax")
    return _BOOLEANS[text]


def _integer(flag: str, text: str, function: str, bits: int) -> int:
    if not _NUMBER.fullmatch(text):
        raise _bad(flag, text, function, "invalid syntax")
    value = int(text) if len(text) < 32 else 1 << bits
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise _bad(flag, text, function, "value out of range")
    return value


def _bad(flag: str, text: str, function: str, problem: str) -> BadFlag:
    quoted = json.dumps(text, ensure_ascii=False)
    return BadFlag(f"failed set {flag} {text}: strconv.{function}: parsing {quoted}: {problem}")
