"""The loop of strategies that work in rounds: at once, then again an interval after each round."""

import asyncio
import logging
from collections.abc import Callable

from koordpy.agent.interface.flags import FlagSet
from koordpy.agent.interface.handle import Handle
from koordpy.agent.interface.plugin import RECONCILE_INTERVAL

log = logging.getLogger(__name__)


def declare_interval(flags: FlagSet) -> None:
    """Declare the interval that restoring strategies share."""
    flags.declare(
        RECONCILE_INTERVAL, 1, "seconds between rounds that restore settings of the node; 0 or less: off"
    )


async def run(
    handle: Handle, name: str, reconcile: Callable[[], None], flag: str = RECONCILE_INTERVAL
) -> None:
    """Call `reconcile` in rounds until cancelled; never if the flag's seconds are 0 or less."""
    interval = handle.flags.integer(flag)
    if interval <= 0:
        log.info("%s is off: --%s is %d", name, flag, interval)
        await asyncio.Event().wait()
    while True:
        reconcile()
        await handle.sleep(interval)
