"""Sends requests, with retries.

A request is repeated only if that is safe: it was not executed (429, 503 with Retry-After, no connection), or
it is idempotent. Errors: `koordpy.cluster.errors`.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import lru_cache

from prometheus_client import Counter, Histogram

from koordpy.lib.http1 import BadResponse, HttpError, Response
from koordpy.lib.supervise import Backoff

from .connection import JSON, Channel
from .errors import ConnectionFailed, error_of

ATTEMPTS = 5

_LONGEST_WAIT = 60.0
"""The longest Retry-After in seconds that is respected."""

REQUESTS = Counter(
    "koordpy_client_requests_total", "Requests to the API server, by method and status.", ["method", "code"]
)
SECONDS = Histogram(
    "koordpy_client_request_seconds",
    "Latency of the API server, except watches, without waits between tries.",
    ["method"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30),
)

count = lru_cache(maxsize=512)(REQUESTS.labels)
"""Return the counter of a method and a status."""

_timer = lru_cache(maxsize=64)(SECONDS.labels)


class Sender:
    """Sends requests over a connection; `timeout` is per try, in seconds."""

    def __init__(
        self,
        connection: Channel,
        *,
        timeout: float,
        attempts: int = ATTEMPTS,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._connection = connection
        self._timeout, self._attempts, self._sleep = timeout, attempts, sleep
        self._rng = rng or random.Random()

    async def send(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        content_type: str = JSON,
        repeatable: bool | None = None,
        doubtful: list[bool] | None = None,
        wait_on_429: bool = True,
        timeout: float | None = None,
    ) -> Response:
        """Send any request and return its successful answer (status below 400).

        `repeatable` declares it idempotent (default: GET only); `doubtful` gets an element for every
        unanswered try that may have taken effect. Raises ApiError or ConnectionFailed after the last try.
        """
        repeatable = method == "GET" if repeatable is None else repeatable
        backoff: Backoff | None = None
        loop = asyncio.get_running_loop()
        for attempt in range(1, self._attempts + 1):
            started = loop.time()
            wait: float | None = None
            failure: Exception
            try:
                response = await self._connection.request(
                    method, path, body=body, content_type=content_type, timeout=timeout or self._timeout
                )
            except BadResponse as error:
                count(method, "error").inc()
                raise ConnectionFailed(method, path, error, sent=True) from error
            except HttpError as error:
                count(method, "error").inc()
                failure = ConnectionFailed(method, path, error, sent=error.sent)
                failure.__cause__ = error
                again = repeatable or not error.sent
                maybe_done = error.sent
            else:
                status = response.status
                count(method, status).inc()
                _timer(method).observe(loop.time() - started)
                if status < 400:
                    return response
                refusal = error_of(method, path, status, response.body, response.header("retry-after"))
                failure, wait = refusal, refusal.retry_after
                if status == 429:
                    again, maybe_done = wait_on_429, False
                elif status in (500, 502, 503, 504):
                    maybe_done = wait is None
                    again = repeatable or not maybe_done
                else:
                    raise refusal
            if not again or attempt == self._attempts:
                raise failure
            if maybe_done and doubtful is not None:
                doubtful.append(True)
            backoff = backoff or Backoff(initial=0.2, maximum=10.0, rng=self._rng)
            pause = backoff.next()
            await self._sleep(pause if wait is None else min(wait, _LONGEST_WAIT) + pause)
        raise AssertionError("unreachable")
