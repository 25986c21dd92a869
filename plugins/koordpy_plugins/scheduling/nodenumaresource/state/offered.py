"""What offers of nodes consist of, as columns: CPUs and amounts in place of those that are free."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koordpy.cluster.columns import Bool, Int64

Int32 = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class OfferedCPUs:
    """The CPUs of n offers of nodes that suit a bind policy: `counts` (n, K) by NUMA node, `totals` (n,).

    Those that are taken first are `preferred` (n, K), `all_preferred` (n,). `returned` (n,) are the allocated
    CPUs that count as free in an offer, whether they suit or not. A pod may have at most `most` (n,) CPUs.
    """

    counts: Int32
    totals: Int32
    preferred: Int32
    all_preferred: Int32
    returned: Int32
    most: Int32

    @classmethod
    def joined(cls, join: Callable[[list[Any]], Any], parts: "Sequence[OfferedCPUs]") -> "OfferedCPUs":
        """Return the CPUs of several offers (`np.array`), or of several nodes' offers (`np.concatenate`)."""
        return cls(
            join([each.counts for each in parts]),
            join([each.totals for each in parts]),
            join([each.preferred for each in parts]),
            join([each.all_preferred for each in parts]),
            join([each.returned for each in parts]),
            join([each.most for each in parts]),
        )

    def pick(self, at: Int64) -> "OfferedCPUs":
        """Return those of some offers, by position."""
        return OfferedCPUs(
            self.counts[at],
            self.totals[at],
            self.preferred[at],
            self.all_preferred[at],
            self.returned[at],
            self.most[at],
        )


@dataclass(frozen=True, slots=True)
class OfferedAmounts:
    """All that some of n offers consist of, in place of what is left: `amounts` (n, R, K).

    `named` (n, R, K) is whether the offer has a resource on a NUMA node, be it 0 of it. `is_all` (n,) is
    which offers this holds for.
    """

    is_all: Bool
    amounts: Int64
    named: Bool

    @classmethod
    def of_none(cls, lent: Int64) -> "OfferedAmounts":
        """Return that offers lend amounts (n, R, K) besides what is left."""
        return cls(np.zeros(len(lent), np.bool_), np.zeros_like(lent), np.zeros(lent.shape, np.bool_))

    @classmethod
    def joined(cls, parts: "Sequence[OfferedAmounts]") -> "OfferedAmounts":
        """Return the amounts of several nodes' offers."""
        return cls(
            np.concatenate([each.is_all for each in parts]),
            np.concatenate([each.amounts for each in parts]),
            np.concatenate([each.named for each in parts]),
        )

    def pick(self, at: Int64) -> "OfferedAmounts":
        """Return those of some offers, by position."""
        return OfferedAmounts(self.is_all[at], self.amounts[at], self.named[at])
