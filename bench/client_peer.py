"""An API server that is never what a client waits for: ready answers over TLS.

`python -m bench.client_peer PORT CERT_DIR` answers a POST of a binding, a GET of pods with a page of 500 of
them, and a watch of pods with as many events as its `labelSelector` says: `COUNT` as fast as they are read,
`COUNT,SECONDS` one at a time in such a distance.
"""

import asyncio
import sys
from pathlib import Path
from urllib.parse import parse_qs

import uvloop

from bench import pods
from koordpy.http.server.asgi import JSON, Receive, Scope, Send, send_answer
from koordpy.http.server.listener import Listener

PAGE = 500
BOUND = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'
_TOGETHER = 64


async def serve(port: int, cert_dir: Path) -> None:
    """Serve until the process ends."""
    items = [pods.pod_json(i, 5_000) for i in range(PAGE)]
    page = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":['
    page += b",".join(items) + b"]}"
    events = [b'{"type":"MODIFIED","object":' + item + b"}\n" for item in items]

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body", False):
            pass
        if scope["method"] == "POST":
            await send_answer(send, 201, BOUND, JSON)
            return
        query = parse_qs(scope["query_string"].decode())
        if "watch" not in query:
            await send_answer(send, 200, page, JSON)
            return
        count, _, pause = query["labelSelector"][0].partition(",")
        await send({"type": "http.response.start", "status": 200, "headers": [JSON]})
        await _send_events(send, events, int(count), float(pause or 0))
        await send({"type": "http.response.body", "body": b""})

    await Listener("peer", application, host="127.0.0.1", port=port, cert_dir=cert_dir).start()
    await asyncio.Event().wait()


async def _send_events(send: Send, events: list[bytes], count: int, pause: float) -> None:
    together = 1 if pause else _TOGETHER
    for start in range(0, count, together):
        chunk = b"".join(events[i % len(events)] for i in range(start, min(start + together, count)))
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
        if pause:
            await asyncio.sleep(pause)


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2])))
