"""`docs/debugging.md` shows what its commands print, for a service on the cluster that it describes."""

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy import settings
from koordpy.api.core import Namespace, Node, Pod
from koordpy.api.scheme import resource_of
from tests.eventually import PATIENCE
from tests.integration.service.stage import Stage, serving, until

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "debugging.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```yaml\n# (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
DEBUG = "http://127.0.0.1:10251"
_VARIES = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "TIME"),
    (re.compile(r"^[\d:.]{12} ", re.MULTILINE), "TIME "),
    (re.compile(r"\d+\.\d+ ms"), "N ms"),
    (re.compile(r" *\+[\d.]+ m?s"), " +N"),
    (re.compile(r"UID [0-9a-f-]{36}"), "UID"),
    (re.compile(r'"(uid)":"[^"]*"'), r'"\1":"UID"'),
    (re.compile(r'"(filter|score|prioritize|total)":\d+\.\d+'), r'"\1":N'),
    (re.compile(r"UID [0-9a-f-]{36}"), "UID"),
    (re.compile(r"^ +TIME +(?:\+\S+ \S+ +)?", re.MULTILINE), "  TIME "),
    (re.compile(r" +$", re.MULTILINE), ""),
)


def runs() -> list[tuple[str, str]]:
    """Return the page's commands in order, each with what it prints."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        for line in block.splitlines(keepends=True):
            if line.startswith("$ "):
                found.append((line[2:].strip(), ""))
            else:
                command, output = found[-1]
                found[-1] = command, output + line
    return found


def comparable(text: str) -> str:
    """Take out of a text what is different each time."""
    for pattern, instead in _VARIES:
        text = pattern.sub(instead, text)
    return text.rstrip("\n")


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Stage]:
    """A service on the page's cluster, of which kube-scheduler has asked about two pods."""
    async with serving(tmp_path, parts=["extender", "debug"]) as stage:
        await stage.client.create_raw(resource_of(Namespace), "", _named("Namespace", "shop"))
        for document in yaml.safe_load(FILES["cluster.yaml"])["items"]:
            await stage.client.create_raw(resource_of(Node), "", document)
            name = document["metadata"]["name"]
            await stage.client.patch_status(Node, "", name, {"status": document["status"]})
        nodes = stage.process.cluster.nodes
        await until(lambda: len(nodes) == 3 and int(nodes.allocatable[:, 0].sum()) == 16000)
        yield stage


async def seed(stage: Stage) -> None:
    pod = await stage.add_pod("web-a", cpu="1500m", namespace="shop")
    await stage.filter(pod, "node-1", "node-2")
    await stage.prioritize(pod, "node-1", "node-2")
    assert await stage.bind(pod, "node-1") == ""
    await ask_for_too_much(stage, "huge")


async def ask_for_too_much(stage: Stage, name: str) -> None:
    pod = await stage.add_pod(name, cpu="64", namespace="shop")
    await stage.filter(pod, "node-1", "node-2")


def _named(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}


async def run(stage: Stage, folder: Path, command: str) -> asyncio.subprocess.Process:
    name, *arguments = shlex.split(command)
    arguments = [argument.replace(DEBUG, stage.url("debug")) for argument in arguments]
    if name == "koordpy":
        code = "from koordpy.cli import main; main()"
        arguments = ["-c", code, *arguments, "--debug-server", stage.url("debug")]
        name = sys.executable
    return await asyncio.create_subprocess_exec(
        name,
        *arguments,
        cwd=folder,
        env=os.environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        preexec_fn=_be_interruptible,
    )


def _be_interruptible() -> None:
    """Heed SIGINT, which a process that a shell runs in the background is told to ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


async def printed(process: asyncio.subprocess.Process) -> str:
    output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    return output.decode()


async def test_commands_print_what_the_page_shows(shop: Stage, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    code = 0
    checked = 0
    for command, shown in runs():
        if command == "echo $?":
            assert shown == f"{code}\n", command
            continue
        if command.startswith("curl") and shutil.which("curl") is None:
            continue
        if command == "koordpy why shop/web-a":
            await seed(shop)
        process = await run(shop, tmp_path, command)
        if "--follow" in command or "watch=true" in command:
            told = await followed(shop, process)
        else:
            told = await printed(process)
        code = process.returncode or 0
        assert comparable(told) == comparable(shown), command
        checked += 1
    assert checked >= 6


async def followed(stage: Stage, process: asyncio.subprocess.Process) -> str:
    """Let a command follow one more attempt, or what was asked for of the earlier ones, and end it."""
    observers = stage.observers
    assert observers is not None
    assert process.stdout is not None
    await until(lambda: len(observers.streams) == 1)
    await ask_for_too_much(stage, "huger")
    line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.wait(), PATIENCE)
    await until(lambda: len(observers.streams) == 0)
    await stage.client.delete(Pod, "shop", "huger", grace_period_seconds=0)
    return line.decode()


def test_the_settings_on_the_page_are_the_defaults(tmp_path: Path) -> None:
    file = tmp_path / "koordpy.yaml"
    file.write_text(FILES["koordpy.yaml"], encoding="utf-8")
    assert settings.load(file) == settings.load(None)
    shown = yaml.safe_load(FILES["koordpy.yaml"])["extender"]
    known = json.loads(settings.load(None).extender.model_dump_json(by_alias=True))
    for part in ("debugLog", "monitor", "workloadAuditor", "scheduleExplanations"):
        assert set(shown[part]) == set(known[part]), part
