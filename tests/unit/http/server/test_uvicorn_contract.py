"""The internals of uvicorn that the listeners depend on.

`koordpy.http.server` subclasses uvicorn's protocol and server, which uvicorn does not promise to keep. Its
version is capped in `pyproject.toml`; these tests say what a newer one must still do, and fail with the name
of what differs. Raise the cap only with all of them green.
"""

import ast
import asyncio
import inspect
import socket
import textwrap
from collections.abc import Callable
from importlib.metadata import requires, version
from typing import Any

import pytest
import uvicorn
from packaging.requirements import Requirement
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import Server, ServerState

from koordpy.http.server.drain import DrainingProtocol
from koordpy.http.server.protocol import Exchange
from tests.eventually import PATIENCE

FOUND = f"uvicorn {version('uvicorn')}"


def expect(found: object, expected: object) -> None:
    assert found == expected, f"{FOUND}: got {found}, expected {expected}"


def test_the_installed_version_is_one_that_the_contract_was_checked_with():
    [allowed] = [r for line in requires("koordpy") or () if (r := Requirement(line)).name == "uvicorn"]
    assert any(one.operator in ("<", "==") for one in allowed.specifier), "uvicorn has no upper bound"
    assert allowed.specifier.contains(version("uvicorn")), f"{FOUND}, expected {allowed.specifier}"


# --- shapes ----------------------------------------------------------------------------------------

PROTOCOL = {
    "__init__": "self, config, server_state, app_state, _loop",
    "connection_made": "self, transport",
    "connection_lost": "self, exc",
    "eof_received": "self",
    "data_received": "self, data",
    "pause_writing": "self",
    "resume_writing": "self",
    "on_message_begin": "self",
    "on_url": "self, url",
    "on_header": "self, name, value",
    "on_headers_complete": "self",
    "on_body": "self, body",
    "on_message_complete": "self",
    "on_response_complete": "self",
    "shutdown": "self",
    "send_400_response": "self, msg",
    "timeout_keep_alive_handler": "self",
    "handle_websocket_upgrade": "self",
    "_start_asgi_task": "self, cycle, app",
    "_unset_keepalive_if_required": "self",
    "_get_upgrade": "self",
    "_should_upgrade": "self",
    "_should_upgrade_to_ws": "self",
    "_unsupported_upgrade_warning": "self",
}
"""Every method of a connection, so that a new one, which our limits do not know, is noticed too."""

SERVER = {
    "__init__": "self, config",
    "serve": "self, sockets",
    "_serve": "self, sockets",
    "startup": "self, sockets",
    "main_loop": "self",
    "on_tick": "self, counter",
    "shutdown": "self, sockets",
    "capture_signals": "self",
}

CYCLE = {
    "__init__": (
        "self, scope, transport, flow, logger, access_logger, access_log, default_headers, message_event, "
        "expect_100_continue, keep_alive, on_response"
    ),
    "run_asgi": "self, app",
    "receive": "self",
    "send": "self, message",
}


@pytest.mark.parametrize(
    ("owner", "name", "parameters"),
    [
        (owner, name, parameters)
        for owner, methods in ((HttpToolsProtocol, PROTOCOL), (Server, SERVER), (RequestResponseCycle, CYCLE))
        for name, parameters in methods.items()
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_methods_have_the_expected_parameters(owner: type, name: str, parameters: str) -> None:
    method = getattr(owner, name, None)
    assert method is not None, f"{FOUND}: {owner.__name__}.{name} is gone"
    found = ", ".join(inspect.signature(method).parameters)
    assert found == parameters, f"{FOUND}: {owner.__name__}.{name}({found}), expected ({parameters})"


def test_a_connection_has_no_methods_that_the_limits_do_not_know() -> None:
    found = {name for name, value in vars(HttpToolsProtocol).items() if inspect.isfunction(value)}
    assert found == set(PROTOCOL), f"{FOUND}: HttpToolsProtocol differs by {found ^ set(PROTOCOL)}"


def test_overrides_replace_methods_of_uvicorn_and_helpers_hide_none() -> None:
    """An override of a method that was renamed would never be called."""
    ours = [c for c in DrainingProtocol.__mro__ if c.__module__.startswith("koordpy.")]
    names = {name for c in ours for name, value in vars(c).items() if inspect.isfunction(value)}
    helpers = {name for name in names if name.startswith("_") and not name.startswith("__")}
    expect(names - helpers - {"check", "give_up"} <= set(PROTOCOL), True)
    expect(helpers & set(PROTOCOL), set())


def test_the_end_of_an_answer_does_what_our_own_version_of_it_replaces() -> None:
    """`SequentialProtocol.on_response_complete` is written anew, without uvicorn's keep-alive timers."""
    expected = {
        "server_state", "total_requests", "transport", "is_closing", "flow", "resume_reading", "pipeline",
        "pop", "_start_asgi_task", "_unset_keepalive_if_required", "timeout_keep_alive_task", "loop",
        "call_later", "timeout_keep_alive", "timeout_keep_alive_handler",
    }  # fmt: skip
    found = set(HttpToolsProtocol.on_response_complete.__code__.co_names)
    assert found == expected, f"{FOUND}: on_response_complete differs by {found ^ expected}"


def test_uvicorn_reads_nothing_of_a_direct_request_that_an_exchange_lacks() -> None:
    """A direct request is `self.cycle` to uvicorn's code wherever that is not overridden."""
    ours_alone = ("on_body", "on_message_complete")  # not called on for direct requests
    known = {name for name in dir(Exchange) if not name.startswith("__")}
    for name in PROTOCOL.keys() - set(ours_alone):
        used = _attributes_of_cycle(getattr(HttpToolsProtocol, name))
        assert used <= known, f"{FOUND}: {name} uses self.cycle.{', '.join(sorted(used - known))}"


def _attributes_of_cycle(function: Callable[..., Any]) -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("self.cycle", "existing_cycle")
    }


# --- the lifecycle of a connection -----------------------------------------------------------------


class Wire(asyncio.Transport):
    """Keeps what is written, and notes when it is closed."""

    def __init__(self, events: list[str]) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.events, self.written = events, b""
        self.closing = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True
        self.events.append("close")

    def pause_reading(self) -> None:
        self.events.append("pause_reading")

    def resume_reading(self) -> None:
        self.events.append("resume_reading")


async def app(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def config(application: Any = app) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        http=HttpToolsProtocol,
        ws="none",
        proxy_headers=False,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        backlog=10,
        timeout_graceful_shutdown=1,
    )


class Connection:
    """uvicorn's own protocol on a wire, noting every callback."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.wire = Wire(self.events)
        self.state = ServerState()
        self.protocol = _noting(self.events)(config=config(), server_state=self.state, app_state={})
        self.protocol.connection_made(self.wire)

    def send(self, data: bytes) -> None:
        self.protocol.data_received(data)

    async def settle(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while self.state.tasks:
                await asyncio.sleep(0)

    def take(self) -> list[str]:
        taken = self.events[:]
        self.events.clear()
        return taken


def _noting(events: list[str]) -> type[HttpToolsProtocol]:
    def note(name: str) -> Callable[..., Any]:
        original = getattr(HttpToolsProtocol, name)

        def noted(self: Any, *arguments: Any) -> Any:
            events.append(name)
            return original(self, *arguments)

        return noted

    names = [name for name in PROTOCOL if name.startswith("on_")] + ["_start_asgi_task"]
    return type("Noting", (HttpToolsProtocol,), {name: note(name) for name in names})


async def test_a_request_begins_when_its_header_fields_are_complete_and_ends_with_its_response() -> None:
    connection = Connection()
    expect(connection.state.connections, {connection.protocol})
    connection.send(b"POST /p?q=1 HTTP/1.1\r\nHost: t\r\ncontent-length: 4\r\n\r\n")
    begun = [
        "on_message_begin",
        "on_url",
        "on_header",
        "on_header",
        "on_headers_complete",
        "_start_asgi_task",
    ]
    expect(connection.take(), begun)
    expect(connection.protocol.url, b"/p?q=1")
    expect(connection.protocol.headers, [(b"host", b"t"), (b"content-length", b"4")])
    expect(connection.protocol.expect_100_continue, False)
    parser = connection.protocol.parser
    expect((parser.get_method(), parser.get_http_version()), (b"POST", "1.1"))
    expect(parser.should_keep_alive(), True)
    cycle = connection.protocol.cycle
    expect((cycle.response_started, cycle.response_complete), (False, False))
    expect((cycle.disconnected, cycle.keep_alive), (False, True))
    connection.send(b"bo")
    connection.send(b"dy")
    expect(connection.take(), ["on_body", "on_body", "on_message_complete"])
    await connection.settle()
    expect(connection.take(), ["on_response_complete"])
    expect(connection.wire.written.endswith(b"\r\n\r\nok"), True)
    expect((cycle.response_complete, connection.state.total_requests), (True, 1))
    expect(connection.protocol.timeout_keep_alive_task is not None, True)


async def test_a_pipelined_request_waits_for_the_answer_before_it() -> None:
    connection = Connection()
    request = b"GET / HTTP/1.1\r\nhost: t\r\n\r\n"
    connection.send(request + request)
    expect(connection.take().count("_start_asgi_task"), 1)
    [(waiting, application)] = connection.protocol.pipeline
    expect((waiting is connection.protocol.cycle, application is app), (True, True))
    expect(connection.protocol.flow.read_paused, True)
    await connection.settle()
    expect(connection.take().count("on_response_complete"), 2)
    expect((connection.wire.written.count(b"HTTP/1.1 200"), connection.protocol.flow.read_paused), (2, False))


async def test_trailers_come_as_header_fields_after_the_body() -> None:
    connection = Connection()
    connection.send(b"POST / HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n")
    connection.take()
    connection.send(b"1\r\nx\r\n0\r\nx-trailer: y\r\n\r\n")
    expect(connection.take(), ["on_body", "on_header", "on_message_complete"])
    await connection.settle()


async def test_an_answer_without_keep_alive_closes_and_says_so_only_in_a_default_header() -> None:
    connection = Connection()
    connection.send(b"GET / HTTP/1.1\r\nhost: t\r\n\r\n")
    cycle = connection.protocol.cycle
    cycle.keep_alive = False
    cycle.default_headers = [*cycle.default_headers, (b"connection", b"close")]
    await connection.settle()
    expect(connection.wire.written.lower().count(b"connection: close"), 1)
    expect(connection.wire.closing, True)


async def test_a_lost_connection_marks_its_request_and_wakes_the_application() -> None:
    connection = Connection()
    connection.send(b"POST / HTTP/1.1\r\nhost: t\r\ncontent-length: 4\r\n\r\nbo")
    cycle = connection.protocol.cycle
    await asyncio.sleep(0)
    cycle.message_event.clear()
    connection.protocol.connection_lost(None)
    expect((cycle.disconnected, cycle.message_event.is_set()), (True, True))
    expect(connection.state.connections, set())
    await connection.settle()
    expect(connection.wire.written, b"")


async def test_shutdown_closes_an_idle_connection_and_lets_a_busy_one_answer() -> None:
    idle, busy = Connection(), Connection()
    busy.send(b"GET / HTTP/1.1\r\nhost: t\r\n\r\n")
    idle.protocol.shutdown()
    busy.protocol.shutdown()
    expect((idle.wire.closing, busy.wire.closing), (True, False))
    expect(busy.protocol.cycle.keep_alive, False)
    await busy.settle()
    expect((busy.wire.closing, busy.wire.written[-2:]), (True, b"ok"))


async def test_writing_is_held_up_while_the_caller_does_not_read() -> None:
    connection = Connection()
    connection.protocol.pause_writing()
    expect(connection.protocol.flow.write_paused, True)
    connection.protocol.resume_writing()
    expect(connection.protocol.flow.write_paused, False)
    connection.protocol.flow.pause_reading()
    connection.protocol.flow.resume_reading()
    expect(connection.take(), ["pause_reading", "resume_reading"])


async def test_the_application_is_called_as_it_was_given() -> None:
    """`direct_endpoint` is an attribute of it: a wrapper would hide that."""
    given = config()
    given.load()
    expect(given.loaded_app is app, True)
    expect(given.ws_protocol_class, None)


# --- the lifecycle of a server ---------------------------------------------------------------------


class Listening:
    """Stands where uvicorn has asyncio's servers, as the acceptor does."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    def close(self) -> None:
        self._events.append("close")

    async def wait_closed(self) -> None:
        self._events.append("wait_closed")


class Held:
    """A connection that takes a moment to end."""

    def __init__(self, state: ServerState, events: list[str]) -> None:
        self._state, self._events = state, events

    def shutdown(self) -> None:
        self._events.append("connection.shutdown")
        asyncio.get_running_loop().call_later(0.15, self._end)

    def _end(self) -> None:
        self._events.append("connection ended")
        self._state.connections.discard(self)


async def test_a_server_stops_accepting_then_connections_then_waits_for_them() -> None:
    events: list[str] = []

    class Ours(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            events.append("startup")
            self.servers = [Listening(events)]  # type: ignore[list-item]
            self.started = True

        def capture_signals(self) -> Any:
            events.append("capture_signals")
            return super().capture_signals()

    server = Ours(config())
    serving = asyncio.create_task(server.serve([]))
    async with asyncio.timeout(PATIENCE):
        while not server.started:
            await asyncio.sleep(0)
        server.server_state.connections.add(Held(server.server_state, events))  # type: ignore[arg-type]
        server.should_exit = True
        await serving
    expect(
        events,
        ["capture_signals", "startup", "close", "connection.shutdown", "connection ended", "wait_closed"],
    )
