"""An extender that keeps every node and has no opinion: what calling one costs kube-scheduler at least.

`python -m bench.bare_extender PORT`
"""

import asyncio
import sys

import uvloop

from koordpy.embedded.apiserver.listener import Listener
from koordpy.embedded.apiserver.wire import Request, Response

_NAMES = b'"NodeNames":'


def answer(request: Request) -> Response:
    """Answer filter with the names as they came, prioritize with no score."""
    if not request.path.endswith("/filter"):
        return Response(b"[]")
    begin = request.body.rfind(_NAMES)
    names = request.body[begin : request.body.rfind(b"]") + 1]
    return Response(b"{" + names + b"}")


async def serve(port: int) -> None:
    """Serve until the process ends."""
    await Listener(answer).start("127.0.0.1", port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
