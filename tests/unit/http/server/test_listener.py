import asyncio
import ssl
from datetime import UTC, datetime

import httpx
import pytest

from koordpy.http.server.listener import Listener, ListenError
from koordpy.lib import certificates


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"hi"})


async def test_it_serves_on_a_free_port_and_stops():
    listener = Listener("test", hello, host="127.0.0.1", port=0)
    await listener.start()
    async with httpx.AsyncClient() as client:
        assert (await client.get(listener.url)).text == "hi"
    await listener.stop()
    async with httpx.AsyncClient() as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(listener.url)


async def test_a_taken_port_is_named():
    first = Listener("first", hello, host="127.0.0.1", port=0)
    await first.start()
    with pytest.raises(ListenError, match=f"second.*127.0.0.1:{first.port}"):
        Listener("second", hello, host="127.0.0.1", port=first.port)
    await first.stop()


async def test_a_replaced_certificate_is_served_without_a_restart(tmp_path):
    now = datetime.now(UTC)
    certificates.ensure(tmp_path, ["127.0.0.1"], now)
    listener = Listener("tls", hello, host="127.0.0.1", port=0, cert_dir=tmp_path, reload_seconds=0.02)
    await listener.start()
    for path in tmp_path.iterdir():
        path.unlink()
    ca = certificates.ensure(tmp_path, ["127.0.0.1"], now)
    trust = ssl.create_default_context(cadata=ca.decode())
    for _ in range(200):
        try:
            async with httpx.AsyncClient(verify=trust) as client:
                answer = await client.get(listener.url)
            break
        except httpx.ConnectError:
            await asyncio.sleep(0.02)
    assert answer.text == "hi"
    await listener.stop()


async def test_a_request_to_speak_websocket_is_answered_as_any_other():
    listener = Listener("test", hello, host="127.0.0.1", port=0)
    await listener.start()
    headers = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    async with httpx.AsyncClient() as client:
        answer = await client.get(listener.url, headers=headers)
    assert (answer.status_code, answer.text) == (200, "hi")
    await listener.stop()
