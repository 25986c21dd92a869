"""Output of commands that call a running service, above all in case of errors."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from koordpy.cli import cli
from tests.integration.service.stage import Stage, serving


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(tmp_path, parts=["extender", "debug"]) as stage:
        await stage.add_node("n0")
        yield stage


async def koordpy(stage: Stage, *arguments: str, server: str = "") -> Result:
    where = ("--debug-server", server or stage.url("debug"))
    return await asyncio.to_thread(CliRunner().invoke, cli, [*arguments, *where])


async def test_why_shows_the_history_of_a_pod_for_which_koordpy_was_never_called(stage: Stage) -> None:
    await stage.add_pod("stranger")
    told = await koordpy(stage, "why", "default/stranger")
    assert told.exit_code == 0
    assert "kube-scheduler has never called koordpy for this pod" in told.output
    assert "SchedulerNotRunning" in told.output
    as_json = await koordpy(stage, "why", "default/stranger", "-o", "json")
    assert as_json.exit_code == 1
    assert "--history shows what else is known" in as_json.output


async def test_the_namespace_of_a_pod_may_be_an_option(stage: Stage) -> None:
    pod = await stage.add_pod("web")
    await stage.filter(pod, "n0")
    assert "pod default/web" in (await koordpy(stage, "why", "web", "-n", "default")).output


async def test_host_and_port_are_address_enough(stage: Stage) -> None:
    found = await koordpy(
        stage, "health", "--timeout", "60", server=stage.url("debug").removeprefix("http://")
    )
    assert (found.exit_code, "readyz check passed" in found.output) == (0, True)


async def test_a_server_that_is_not_koordpys_debug_api_is_not_taken_for_it(stage: Stage) -> None:
    found = await koordpy(stage, "why", "default/web", server=stage.client.connection.server)
    assert found.exit_code == 1
    assert "is that koordpy's debug API?" in found.output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Missing argument"),
        (("web",), 1, "got 'web', expected NAMESPACE/POD"),
        (("a/b/c",), 1, "got 'a/b/c', expected NAMESPACE/POD"),
        (("a/b", "-n", "c"), 1, "expected one namespace"),
        (("a/b", "--follow", "--history"), 2, "cannot be combined"),
        (("a/b", "--uid", "u"), 2, "--uid needs --history"),
        (("a/b", "--reservation", "r"), 2, "--reservation cannot be combined"),
        (("--reservation", "r"), 1, "no attempt to place Reservation r is recorded"),
        (("a/b", "--outcome", "bound"), 2, "--outcome needs --follow"),
        (("a/b",), 1, "pod a/b does not exist"),
    ],
)
async def test_wrong_arguments_of_why_are_reported(
    stage: Stage, arguments: tuple[str, ...], code: int, message: str
) -> None:
    found = await koordpy(stage, "why", *arguments)
    assert found.exit_code == code
    assert message in found.output
