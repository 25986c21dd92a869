import asyncio

from koordpy.http.server.listener import Listener


async def test_a_head_does_not_wait_for_a_body_that_takes_long():
    may_go_on = asyncio.Event()

    async def slow(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await may_go_on.wait()
        await send({"type": "http.response.body", "body": b"hi"})

    listener = Listener("slow", slow, host="127.0.0.1", port=0)
    await listener.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
    may_go_on.set()
    assert await reader.readexactly(2) == b"hi"
    writer.close()
    await listener.stop()
