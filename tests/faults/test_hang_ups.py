"""Callers that hang up at any moment leave no traceback in the log."""

import asyncio
import gc
import json
import logging
from pathlib import Path

import pytest

from tests.integration.service.stage import pod_document, review_of, serving
from tests.servers.caller import Caller, head


@pytest.mark.parametrize("listener", ["extender", "admission", "debug"])
async def test_a_hang_up_is_no_traceback(
    tmp_path: Path, listener: str, caplog: pytest.LogCaptureFixture
) -> None:
    review = json.dumps(review_of(pod_document("p", uid="u"))).encode()
    json_header = "content-type: application/json\r\n"
    posts = [
        head("/mutate-pod", len(review), json_header) + review,
        head("/extender/filter", len(review), json_header) + review,
        head("/apis/v1/whatif", len(review), json_header) + review,
    ]
    stream = b"GET /apis/v1/decisions?watch=true HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    metrics = b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" * 50
    handshake = b"\x16\x03\x01\x02\x00\x01"
    sent = [b"", b"POST", handshake, stream, metrics, *posts, *(post[:-20] for post in posts)]
    async with serving(tmp_path, parts=["admission", "extender", "debug"]) as stage:
        caplog.clear()
        for data in sent:
            for tls in (stage.trust(), None) if listener == "admission" else (None,):
                for pause in (0.0, 0.02):
                    async with Caller(stage.url(listener), tls) as caller:
                        await caller.send(data)
                        await asyncio.sleep(pause)
        await asyncio.sleep(0.3)
        gc.collect()
        await asyncio.sleep(0)
    broken = [record.getMessage() for record in caplog.records if record.exc_info]
    assert broken == []
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
