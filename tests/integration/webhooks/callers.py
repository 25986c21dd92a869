"""Callers that behave as kube-apiserver does: they trust the caBundle that the cluster shows."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from koordpy.lib.http1 import HttpClient, HttpError
from tests.integration.service.stage import pod_document, review_of
from tests.integration.webhooks.grounds import Grounds

BODY = msgspec.json.encode(review_of(pod_document("p")))
HEADERS = {"content-type": "application/json"}


class Callers:
    """How many calls were answered with a verdict, and what went wrong with others."""

    def __init__(self) -> None:
        self.answered = 0
        self.failures: list[str] = []
        self.trust: ssl.SSLContext | None = None

    async def follow(self, ground: Grounds) -> None:
        """Keep to the caBundle, a moment after it has changed."""
        while True:
            self.trust = await ground.trust()
            await asyncio.sleep(0.05)

    async def call(self, urls: Callable[[], list[str]], *, keep: bool) -> None:
        """Call one after the other of what `urls` says, over new connections or (`keep`) old ones."""
        kept: dict[tuple[str, ssl.SSLContext], HttpClient] = {}
        try:
            while True:
                for url in urls():
                    assert self.trust is not None
                    key = (url, self.trust)
                    client = kept.get(key) or HttpClient(url, tls=self.trust, server_hostname="127.0.0.1")
                    if keep:
                        kept[key] = client
                    try:
                        answer = await client.request(
                            "POST", "/mutate-pod", body=BODY, headers=HEADERS, repeatable=False
                        )
                    except HttpError as error:
                        self.failures.append(f"{url}: {error}")
                    else:
                        if answer.status == 200 and b'"allowed":true' in answer.body:
                            self.answered += 1
                        else:
                            self.failures.append(f"{url}: {answer.status} {answer.body[:200]!r}")
                    if not keep:
                        await client.close()
                    await asyncio.sleep(0)
        finally:
            for client in kept.values():
                await client.close()


@asynccontextmanager
async def calling(ground: Grounds, urls: Callable[[], list[str]]) -> AsyncIterator[Callers]:
    """Call without a pause until the end, two callers with new connections and two with old ones."""
    callers = Callers()
    callers.trust = await ground.trust()
    tasks = [asyncio.create_task(callers.follow(ground))]
    tasks += [asyncio.create_task(callers.call(urls, keep=keep)) for keep in (True, True, False, False)]
    try:
        yield callers
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
