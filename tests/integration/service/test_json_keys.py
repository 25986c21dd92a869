"""Keys of everything that the debug API returns as JSON, and commands print, are camelCase."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from koordpy.cli import cli
from tests.integration.service.stage import Stage, pod_document, review_of, serving

_SNAKE = re.compile(r"[a-z0-9]+(_[a-z0-9]+)+")


def keys(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every key with the path of its object."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield path, name
            yield from keys(item, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from keys(item, f"{path}[]")


def snakes(value: Any) -> set[str]:
    return {f"{path}.{name}" for path, name in keys(value) if _SNAKE.fullmatch(name)}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(tmp_path, parts=["admission", "extender", "debug"]) as stage:
        for name in ("n0", "n1"):
            await stage.add_node(name)
        pod = await stage.add_pod("web")
        await stage.filter(pod, "n0", "n1")
        await stage.prioritize(pod, "n0", "n1")
        await stage.bind(pod, "n0")
        await stage.filter(await stage.add_pod("huge", cpu="64"), "n0", "n1")
        await stage.review(review_of(pod_document("other")))
        yield stage


async def test_the_debug_api_has_camel_case_keys(stage: Stage) -> None:
    paths = (await stage.get("/")).json()["paths"]
    values = {"namespace": "default", "name": "web", "pod": "web", "node_name": "n0", "nodeName": "n0"}
    seen = 0
    for path in paths:
        if any(part in path for part in ("pprof", "metrics", "openapi", "docs", "z", "flags")):
            continue
        found = await stage.get(re.sub(r"\{(\w+)\}", lambda match: values.get(match[1], "web"), path))
        if found.status_code == 200 and "json" in found.headers["content-type"]:
            seen += 1
            assert snakes(found.json()) == set(), path
    assert seen >= 5
    assert snakes((await stage.get("/configz")).json()) == set()
    for name in ("web", "huge"):
        for path in (f"decisions/default/{name}", f"pods/default/{name}/history"):
            found = await stage.get(f"/apis/v1/{path}")
            assert (found.status_code, snakes(found.json())) == (200, set()), path


async def test_what_if_and_streams_have_camel_case_keys(stage: Stage) -> None:
    answer = await stage.http.post(stage.url("debug") + "/apis/v1/whatif?count=9", json=pod_document("more"))
    assert (answer.status_code, snakes(answer.json())) == (200, set())
    assert answer.json()["byNode"]
    lines = []
    async with stage.http.stream(
        "GET", stage.url("debug") + "/apis/v1/decisions?watch=true&limit=5"
    ) as stream:
        async for line in stream.aiter_lines():
            if line:
                lines.append(json.loads(line))
            if len(lines) == 2:
                break
    assert {"evaluatedNodes", "topNodes"} <= lines[0].keys()
    assert snakes(lines) == set()


async def test_commands_print_camel_case_keys(stage: Stage, tmp_path: Path) -> None:
    pod = tmp_path / "pod.json"
    pod.write_text(json.dumps(pod_document("more")))
    debug = ("--debug-server", stage.url("debug"))
    server = ("--server", stage.client.connection.server)
    for arguments in (
        ("why", "default/huge", *debug),
        ("why", "default/web", "--history", *debug),
        ("whatif", "-f", str(pod), *debug),
        ("doctor", "--parts", "admission,extender", *server),
        ("features",),
        ("version",),
        ("profile", "explain", "-f", str(pod)),
        ("profile", "lint", *server),
    ):
        done = await asyncio.to_thread(CliRunner().invoke, cli, [*arguments, "-o", "json"])
        assert done.exit_code in (0, 1, 3), done.output
        assert snakes(json.loads(done.stdout)) == set(), arguments
