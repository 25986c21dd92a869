"""Which pods this process was asked to bind lately: what tells it that kube-scheduler asks it, or another.

In light mode nobody is asked to bind; there a pod counts that came to a node after a filter call.
"""

import asyncio

REMEMBERED = 16_384
"""Pods; more than are bound in the seconds between a bind call and the watch that shows it."""


class Asked:
    """Pods by UID, the latest last."""

    def __init__(self) -> None:
        self._uids: dict[str, None] = {}
        self._again = asyncio.Event()

    def note(self, uid: str) -> None:
        """Note a pod that this process was asked about."""
        self._uids.pop(uid, None)
        self._uids[uid] = None
        if len(self._uids) > REMEMBERED:
            del self._uids[next(iter(self._uids))]
        self._again.set()

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    async def wait(self) -> None:
        """Wait for the next bind call."""
        self._again.clear()
        await self._again.wait()
