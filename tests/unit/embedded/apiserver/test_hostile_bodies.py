"""Bodies that would exhaust a parser are refused, and the server goes on."""

import inspect
import json

import pytest

from koordpy.embedded.apiserver.server import ApiServer
from koordpy.embedded.apiserver.wire import Request, Response

CONFIG_MAPS = b"/api/v1/namespaces/default/configmaps"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]"
    for before, name in zip("abcdefghij", "bcdefghijk", strict=True)
)


async def send(server: ApiServer, body: str, content_type: str) -> tuple[int, str]:
    request = Request("POST", CONFIG_MAPS, {b"content-type": content_type.encode()}, body.encode())
    answer = server.handle(request)
    found = await answer if inspect.isawaitable(answer) else answer
    assert isinstance(found, Response)
    return found.status, json.loads(found.body).get("message", "")


@pytest.mark.parametrize(
    ("body", "content_type", "message"),
    [
        ("[" * 60_000, "application/yaml", "line 1, column 101: nested more than 100 levels deep"),
        ("a: " + "{a: " * 15_000, "application/yaml", "nested more than 100 levels deep"),
        ("- " * 30_000, "application/yaml", "nested more than 100 levels deep"),
        (BOMB, "application/yaml", "line 6, column 8: aliases add more than"),
        ("a: &a [*a]", "application/yaml", "part of its own anchor"),
        ('{"a":' * 500_000, "application/json", "nested more than 100 levels deep"),
        ('{"a":' * 500 + "1" + "}" * 500, "application/json", "nested more than 100 levels deep"),
    ],
)
async def test_bodies_that_exhaust_a_parser_are_refused(body: str, content_type: str, message: str) -> None:
    server = ApiServer()
    await server.load()
    status, told = await send(server, body, content_type)
    assert status == 400, told
    assert message in told
    assert (await send(server, '{"metadata": {"name": "after"}}', "application/json"))[0] == 201
