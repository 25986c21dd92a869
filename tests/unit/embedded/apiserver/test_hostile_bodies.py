"""Bodies that would exhaust a parser are refused, and the server goes on."""

import inspect
import json

import pytest

from koordpy.api import strategic_merge
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
        ("a: b\n" * 500_000, "application/yaml", "more than 25000 values"),
        (
            '{"data": {' + ", ".join(f'"k{n}": "v"' for n in range(26_000)) + "}}",
            "application/json",
            "25000 values",
        ),
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


async def test_objects_and_the_storage_have_a_size() -> None:
    server = ApiServer(storage_bytes=4_000_000)
    await server.load()

    async def create(name: str, size: int) -> tuple[int, str]:
        text = json.dumps({"metadata": {"name": name}, "binaryData": {"a": "eHh4" * (size // 4)}})
        return await send(server, text, "application/json")

    for name in ("a", "b", "c"):
        assert (await create(name, 1_000_000))[0] == 201
    status, told = await create("d", 1_000_000)
    assert (status, told) == (413, "the storage is full: at most 4000000 bytes of objects are kept")
    for name in ("a", "b"):
        request = Request("DELETE", CONFIG_MAPS + b"/" + name.encode(), {}, b"")
        answer = server.handle(request)
        assert isinstance(await answer if inspect.isawaitable(answer) else answer, Response)
    assert (await create("d", 1_000_000))[0] == 201


async def test_errors_name_a_hundred_wrong_fields() -> None:
    server = ApiServer()
    await server.load()
    body = {"metadata": {"name": "a", "labels": {f"k {n}": "v v" for n in range(5_000)}}}
    status, told = await send(server, json.dumps(body), "application/json")
    assert status == 422
    assert "k 0" in told
    assert "more" in told
    assert len(told) < 100_000


@pytest.mark.parametrize("query", ["limit", "resourceVersion", "timeoutSeconds"])
@pytest.mark.parametrize("number", ["9" * 5_000, "%C2%B2"])
async def test_numbers_that_are_none_are_refused(query: str, number: str) -> None:
    server = ApiServer()
    await server.load()
    answer = server.handle(Request("GET", CONFIG_MAPS + f"?{query}={number}".encode(), {}, b""))
    assert isinstance(answer, Response)
    assert answer.status == (200 if query == "timeoutSeconds" else 400)


async def test_a_strategic_merge_of_long_lists_takes_no_step_for_each_pair() -> None:
    containers = [{"name": f"c{n}"} for n in range(5_000)]
    found = strategic_merge.apply(
        {"spec": {"containers": containers}}, {"spec": {"containers": containers}}, "Pod"
    )
    assert len(found["spec"]["containers"]) == 5_000
    deletions = [{**container, "$patch": "delete"} for container in containers]
    with pytest.raises(strategic_merge.StrategicMergeError, match="too many items"):
        strategic_merge.apply(
            {"spec": {"containers": containers}}, {"spec": {"containers": deletions}}, "Pod"
        )


@pytest.mark.parametrize(("size", "content_type"), [(10, "application/yaml"), (100_000, "application/json")])
async def test_a_long_answer_is_not_written_as_yaml(size: int, content_type: str) -> None:
    server = ApiServer()
    await server.load()
    body = json.dumps({"metadata": {"name": "a"}, "data": {"a": "x" * size}})
    assert (await send(server, body, "application/json"))[0] == 201
    answer = server.handle(Request("GET", CONFIG_MAPS + b"/a", {b"accept": b"application/yaml"}, b""))
    assert isinstance(answer, Response)
    assert answer.content_type == content_type
