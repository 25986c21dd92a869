"""koordpy's extender with one HTTP client or another: `python -m bench.bind_server PORT API_SERVER CLIENT`.

CLIENT is `own` or `aiohttp`. The extender answers on PORT over plain HTTP.
"""

import asyncio
import sys

import uvloop

from bench.aiohttp_channel import AiohttpChannel
from koordpy.cluster.connection import Access, Channel, Connection
from koordpy.compose.process import Process
from koordpy.http.server.application import Application
from koordpy.http.server.listener import Listener
from koordpy.lib.garbage import begin_listing
from koordpy.main import tune_memory
from koordpy.settings import load


async def serve(port: int, api_server: str, client: str) -> None:
    """Serve until the process ends."""
    access = Access(api_server)
    channel: Channel = AiohttpChannel(access) if client == "aiohttp" else Connection.to(access)
    document = {
        "parts": ["extender"],
        "client": {"server": api_server},
        "extender": {"leaderElect": False, "port": 0},
    }
    process = Process(load(None, document), ["extender"], listens=False, connection=channel)
    begin_listing()
    await process.start()
    tune_memory()
    app = Application("bind", [], process.routes["extender"].hot)
    await Listener("bind", app, host="127.0.0.1", port=port).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
