"""Audits of a cluster at every moment of a story: after each write of anything that is audited, in order.

A watch shows the writes of one type in their order, but says nothing about other types, so what several
watches have shown so far is of no moment that ever was. The resource versions of one etcd, though, are one
count of all its writes. So the writes are recorded, sorted when the story is over, and replayed with an audit
after each: what is wrong then was wrong, however briefly, and nothing else is found.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from koordpy.api.meta import KubeObject
from koordpy.audit.objects import TYPES
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError, ConnectionFailed, Gone, NotFound
from koordpy.cluster.watch import Watch
from koordpy.cluster.wire import WatchError
from koordpy.lib.http1_response import HttpError
from tests.audited import Moments
from tests.eventually import PATIENCE

Write = tuple[int, bool, KubeObject]
"""Resource version, whether the object is there after it, and the object."""


class _Recorder:
    """Every write of one type, from its list on."""

    def __init__(self, client: Client, type_: type[KubeObject]) -> None:
        self._client, self._type = client, type_
        self.start: list[KubeObject] = []
        self.began_at = 0
        self.writes: list[Write] = []
        self._known: dict[str, int] = {}
        self._version = ""

    async def list(self) -> bool:
        """List what there is at the start; return whether the type is served."""
        try:
            self.start, self._version = await _all(self._client, self._type)
        except NotFound:
            return False
        self.began_at = int(self._version)
        self._known = {obj.metadata.key: int(obj.metadata.resource_version) for obj in self.start}
        return True

    async def run(self) -> None:
        """Record until cancelled."""
        while True:
            try:
                async with self._client.watch(self._type, resource_version=self._version) as watch:
                    await self._read(watch)
            except Gone as error:
                raise AssertionError(f"writes of {self._type.__name__} were missed: {error}") from None
            except (ApiError, ConnectionFailed, HttpError):
                await asyncio.sleep(0.1)

    async def _read(self, watch: Watch) -> None:
        try:
            while events := await watch.read():
                for event in events:
                    self._add(event.type, event.object)
        except WatchError as error:
            if error.status.code == 410:
                raise AssertionError(f"writes of {self._type.__name__} were missed: {error}") from None

    def _add(self, kind: str, obj: Any) -> None:
        version = int(obj.metadata.resource_version)
        self._version = obj.metadata.resource_version
        if kind == "BOOKMARK":
            return
        self.writes.append((version, kind != "DELETED", obj))
        self._known[obj.metadata.key] = version

    async def is_at(self) -> bool:
        """Whether everything has been recorded that a list shows now."""
        objects, version = await _all(self._client, self._type)
        listed = {obj.metadata.key: int(obj.metadata.resource_version) for obj in objects}
        there = {write[2].metadata.key: write[1] for write in self.writes}
        there = {**dict.fromkeys((obj.metadata.key for obj in self.start), True), **there}
        return all(self._known.get(key, 0) >= number for key, number in listed.items()) and all(
            key in listed or self._known[key] > int(version) for key, is_there in there.items() if is_there
        )


async def _all(client: Client, type_: type[KubeObject]) -> tuple[list[Any], str]:
    page = await client.list_page(type_, limit=0)
    return list(page.items), page.metadata.resource_version


def at_every_moment(start: Iterable[KubeObject], began_at: int, writes: Iterable[Write]) -> Moments:
    """Replay writes, which may come in any order, with an audit after each that is later than `began_at`."""
    moments = Moments()
    for obj in start:
        moments.put(obj, looks=False)
    for version, is_there, obj in sorted(writes, key=lambda write: write[0]):
        if is_there:
            moments.put(obj, looks=version > began_at)
        else:
            moments.remove(obj)
    return moments


@asynccontextmanager
async def always_clean(client: Client) -> AsyncIterator[None]:
    """Raise AssertionError at the end if an audit finds errors at any moment meanwhile.

    All types that are audited are in one etcd. Kinds that are not served at the beginning are left out.
    """
    recorders = [_Recorder(client, type_) for type_ in TYPES]
    recorders = [recorder for recorder in recorders if await recorder.list()]
    tasks = [asyncio.create_task(recorder.run()) for recorder in recorders]
    try:
        yield
        async with asyncio.timeout(PATIENCE):
            for recorder in recorders:
                while not await recorder.is_at():
                    await asyncio.sleep(0.05)
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if not isinstance(error, asyncio.CancelledError):
            raise AssertionError("the cluster could not be followed") from error
    moments = at_every_moment(
        (obj for recorder in recorders for obj in recorder.start),
        max((recorder.began_at for recorder in recorders), default=0),
        (write for recorder in recorders for write in recorder.writes),
    )
    assert not moments.found, "\n".join(str(found) for found in moments.found.values())
