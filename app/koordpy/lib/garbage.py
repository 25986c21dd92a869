"""How often the garbage collector runs: seldom, as cached objects have few cycles and rarely become garbage.

With Python's own limits it runs after every 700 new containers, thousands of times while a list is read.
"""

import gc
from typing import Final

_COLLECT_AFTER: Final = 200_000
"""New containers between two collections."""

_COLLECT_WHILE_LISTING_AFTER: Final = 2_000_000
"""The same until the first lists are complete: ten containers per pod, none of which becomes garbage."""


def collect_seldom() -> None:
    """Run the garbage collector less often."""
    _collect_after(_COLLECT_AFTER)


def begin_listing() -> None:
    """Hardly run the garbage collector during the first lists, until `end_listing`."""
    _collect_after(_COLLECT_WHILE_LISTING_AFTER)


def end_listing() -> None:
    """Leave the listed objects out of collections from now on.

    Cached objects live as long as the process; visiting a hundred thousand of them blocks it for a tenth of
    a second.
    """
    gc.collect()
    gc.freeze()
    collect_seldom()


def _collect_after(containers: int) -> None:
    gc.set_threshold(containers, 20, 50)
