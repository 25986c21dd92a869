"""The result of an extension point: a `Status` for one item, a `Verdict` for many nodes at once.

Reasons are values that travel upward and end in the user's message. A verdict over 5,000 nodes is an array
of codes and an array of reason keys; texts are made only for nodes whose text is requested, and nodes
refused for the same reason share it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

import numpy as np
from numpy.typing import NDArray

Bool = NDArray[np.bool_]
Codes = NDArray[np.int8]
Keys = NDArray[np.int64]


class Code(IntEnum):
    """kube-scheduler's status codes."""

    SUCCESS = 0
    ERROR = 1
    """An error: the attempt ends and no plugin is recorded as the one that rejected the pod."""
    UNSCHEDULABLE = 2
    """Rejected; preemption may help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Rejected; preemption cannot help."""
    WAIT = 4
    """Permit only: the pod waits until every plugin that returned this allows it, or one rejects it."""
    SKIP = 5
    """The plugin does not apply in this cycle."""
    PENDING = 6
    """Rejected; retried as soon as the plugin requests it, without backoff."""

    @property
    def label(self) -> str:
        """The code as metrics spell it: `UnschedulableAndUnresolvable`."""
        return _LABELS[self]


_LABELS = tuple(code.name.title().replace("_", "") for code in Code)

_SUCCESS, _SKIP = Code.SUCCESS, Code.SKIP  # looking a member of an enumeration up takes as long as a call

REJECTED = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING))


@dataclass(frozen=True, slots=True)
class Status:
    """The outcome of one call of an extension point. The default is Success."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    timeout: float = 0.0
    """The longest wait of the pod in seconds (code WAIT)."""
    error: BaseException | None = None
    """The error (code ERROR)."""

    @classmethod
    def unschedulable(cls, *reasons: str) -> Self:
        """Reject; preemption may help."""
        return cls(Code.UNSCHEDULABLE, reasons)

    @classmethod
    def unresolvable(cls, *reasons: str) -> Self:
        """Reject; preemption cannot help."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)

    @classmethod
    def failed(cls, error: BaseException | str) -> Self:
        """Report an error."""
        if isinstance(error, str):
            return cls(Code.ERROR, (error,))
        return cls(Code.ERROR, (str(error) or type(error).__name__,), error=error)

    @classmethod
    def skip(cls) -> "Status":
        """Skip the plugin in this cycle: always the same object."""
        return _SKIPPED

    @classmethod
    def wait(cls, timeout: float) -> Self:
        """Make the pod wait up to `timeout` seconds (Permit only)."""
        return cls(Code.WAIT, timeout=timeout)

    @property
    def is_success(self) -> bool:
        """Whether the code is Success."""
        return self.code is _SUCCESS

    @property
    def is_skip(self) -> bool:
        """Whether the code is Skip."""
        return self.code is _SKIP

    @property
    def is_rejected(self) -> bool:
        """Whether a plugin rejected the pod, as opposed to an error."""
        return self.code in REJECTED

    @property
    def message(self) -> str:
        """The reasons, joined with a comma."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Self:
        """Return the status with the plugin that returned it, unless one is set already."""
        if self.plugin:
            return self
        return type(self)(self.code, self.reasons, plugin, self.timeout, self.error)


SUCCESS = Status()

_SKIPPED = Status(Code.SKIP)


class Verdict:
    """One status per node of a NodeSet, in its order.

    `codes` (n,) int8; `keys` (n,) int64 identify the reasons, `reasons_of(key)` renders them. Use the
    constructors below; the framework combines the verdicts of several plugins.
    """

    __slots__ = ("_render", "codes", "keys")

    def __init__(
        self, codes: Codes | None, keys: Keys | None, render: Callable[[int], Sequence[str]]
    ) -> None:
        self.codes = codes
        """None if every node passes."""
        self.keys = keys
        self._render = render

    @classmethod
    def reject(cls, refused: Bool, reason: str, code: Code = Code.UNSCHEDULABLE) -> "Verdict":
        """Reject the nodes where `refused` (n,) is true, all for one reason."""
        if not refused.any():
            return PASS
        reasons = (reason,)
        return cls(np.where(refused, np.int8(code), np.int8(0)), None, lambda _: reasons)

    @classmethod
    def reject_first(
        cls, refused: Bool, reasons: Sequence[str], code: Code = Code.UNSCHEDULABLE
    ) -> "Verdict":
        """Reject the nodes with any true cell in `refused` (n, r); the first true cell's reason counts."""
        any_ = refused.any(axis=1)
        if not any_.any():
            return PASS
        table = [(reason,) for reason in reasons]
        return cls(np.where(any_, np.int8(code), np.int8(0)), refused.argmax(axis=1), table.__getitem__)

    @classmethod
    def reject_every(cls, refused: Bool, reasons: Sequence[str], codes: Codes | Code) -> "Verdict":
        """Reject the nodes with any true cell in `refused` (n, r); the reasons of all true cells count.

        `codes` is one code, or (n,) int8 of which the rejected nodes' entries are used.
        """
        any_ = refused.any(axis=1)
        if not any_.any():
            return PASS
        picked = np.where(any_, np.asarray(codes, np.int8), np.int8(0))
        width = refused.shape[1]
        if width > 62:
            rows, keys = np.unique(refused, axis=0, return_inverse=True)
            table = [tuple(reasons[i] for i in np.flatnonzero(row).tolist()) for row in rows]
            return cls(picked, keys.reshape(-1).astype(np.int64), table.__getitem__)
        bits = refused @ (np.int64(1) << np.arange(width, dtype=np.int64))
        return cls(picked, bits, lambda key: [reasons[i] for i in range(width) if key >> i & 1])

    @classmethod
    def of(cls, statuses: Sequence[Status]) -> "Verdict":
        """Combine statuses of single nodes."""
        if all(status.code is Code.SUCCESS for status in statuses):
            return PASS
        table: dict[tuple[str, ...], int] = {}
        keys = [table.setdefault(status.reasons, len(table)) for status in statuses]
        codes = np.fromiter((status.code for status in statuses), np.int8, len(statuses))
        return cls(codes, np.array(keys, np.int64), list(table).__getitem__)

    @classmethod
    def keyed(cls, codes: Codes, keys: Keys, table: Sequence[Sequence[str]]) -> "Verdict":
        """Give each node a code (n,) int8 and an index (n,) into a table of reasons."""
        return cls(codes, keys, table.__getitem__) if codes.any() else PASS

    def spread(self, positions: Keys, count: int) -> "Verdict":
        """Return the verdict on `count` nodes, of which those at these positions are this one's."""
        if self.codes is None:
            return PASS
        codes, keys = np.zeros(count, np.int8), np.zeros(count, np.int64)
        codes[positions] = self.codes
        if self.keys is not None:
            keys[positions] = self.keys
        return Verdict(codes, None if self.keys is None else keys, self._render)

    def key(self, index: int) -> int:
        """Return a node's reason key: nodes with equal keys have equal reasons."""
        return 0 if self.keys is None else int(self.keys[index])

    def reasons_of(self, key: int) -> tuple[str, ...]:
        """Return the reasons of a key."""
        return tuple(self._render(key))

    def status(self, index: int) -> Status:
        """Return the status of one node by its index in the NodeSet."""
        if self.codes is None or not self.codes[index]:
            return SUCCESS
        return Status(Code(int(self.codes[index])), self.reasons_of(self.key(index)))


PASS = Verdict(None, None, lambda _: ())
"""Every node passes."""
