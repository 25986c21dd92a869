"""`pods/portforward` over a websocket, as API servers and kubelets serve it.

Everything else is passed on to another API server, but for paths that are forbidden.
"""

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, Self

from aiohttp import ClientSession, WSMsgType, web

CHANNELS = "v4.channel.k8s.io"


class PortForwarding:
    """Forwards the ports of pods to ports of this machine. An async context manager.

    `pods` has the local port of each (pod, port). `upstream` is the URL of an API server.
    """

    def __init__(
        self,
        pods: dict[tuple[str, int], int],
        upstream: str = "",
        *,
        forbidden: Iterable[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.pods, self.upstream, self.forbidden, self._tls = pods, upstream, tuple(forbidden), tls
        self.forwarded: list[tuple[str, int]] = []
        """The (pod, port) of each connection."""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/{namespace}/pods/{pod}/portforward", self._forward)
        app.router.add_get("/portForward/{namespace}/{pod}", self._forward)  # a kubelet's
        app.router.add_route("*", "/{path:.*}", self._pass_on)
        self._session = ClientSession()
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._tls)
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        await self._runner.cleanup()

    async def _pass_on(self, request: web.Request) -> web.Response:
        if refused := self._refused(request):
            return refused
        url = f"{self.upstream}{request.path_qs}"
        async with self._session.request(request.method, url, data=await request.read()) as answer:
            return web.Response(
                body=await answer.read(), status=answer.status, content_type=answer.content_type
            )

    def _refused(self, request: web.Request) -> web.Response | None:
        if not any(part in request.path for part in self.forbidden):
            return None
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403}
        message = f'{request.path} is forbidden: User "eve" cannot do this'
        return web.json_response({**status, "reason": "Forbidden", "message": message}, status=403)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        if refused := self._refused(request):
            return refused
        port = int(request.query.get("ports") or request.query["port"])
        wanted = (request.match_info["pod"], port)
        self.forwarded.append(wanted)
        channel = web.WebSocketResponse(protocols=(CHANNELS,))
        await channel.prepare(request)
        for number in (0, 1):
            await channel.send_bytes(bytes([number]) + port.to_bytes(2, "little"))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.pods[wanted])
        except (OSError, KeyError):
            text = f"error forwarding port {port} to pod {wanted[0]}: connection refused"
            await channel.send_bytes(b"\x01" + text.encode())
            await channel.close()
            return channel

        async def back() -> None:
            while data := await reader.read(1 << 16):
                await channel.send_bytes(b"\x00" + data)
            await channel.close()

        task = asyncio.create_task(back())
        try:
            async for message in channel:
                if message.type is WSMsgType.BINARY and message.data[0] == 0:
                    writer.write(message.data[1:])
                    await writer.drain()
        finally:
            task.cancel()
            writer.close()
        return channel
