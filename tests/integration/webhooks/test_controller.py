"""When the controller works, and when it waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from koordpy.admission.serving.certificate_source import Given
from koordpy.admission.serving.configuration import Target
from koordpy.admission.serving.controller import Controller
from koordpy.admission.serving.registrar import Registrar
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.informers import Informers
from koordpy.embedded.apiserver import Fault
from koordpy.lib import certificates
from koordpy.lib.clock import SystemClock
from tests.integration.webhooks.grounds import MUTATING, NAMES, VALIDATING, Grounds, grounds, until

PATHS = ("/mutate-pod", "/validate-pod")


@asynccontextmanager
async def controller(ground: Grounds, url: str, **options: Any) -> AsyncIterator[Controller]:
    """Run the controller of a replica that is called at `url`."""
    folder = ground.folder / "certs"
    certificates.ensure(folder, ["127.0.0.1"], SystemClock().now())
    target = Target(PATHS, "ns", "svc", url)
    registrar = Registrar(ground.client, target, NAMES[MUTATING], NAMES[VALIDATING])
    cluster = Cluster()
    made = Controller(Given(folder), registrar, cluster, **options)
    async with Informers(cluster, ground.client):
        await made.start()
        try:
            yield made
        finally:
            await made.stop()


async def test_replicas_of_different_opinions_write_less_and_less_often(tmp_path: Path) -> None:
    """While a new version is rolled out, old and new undo each other's work; that must not be a storm."""
    waits: dict[str, list[float]] = {"old": [], "new": []}

    async with grounds(tmp_path) as ground:

        def waiting(name: str) -> AbstractAsyncContextManager[Controller]:
            async def sleep(seconds: float) -> None:
                waits[name].append(seconds)
                await asyncio.sleep(0.001)

            return controller(ground, f"https://{name}:1", sleep=sleep)

        async with waiting("old"), waiting("new"):
            await until(lambda: all(len(found) >= 14 for found in waits.values()))
    for found in waits.values():
        assert all(0.01 * 2**n <= wait <= 0.02 * 2**n for n, wait in enumerate(found[:11]))
        assert all(10 <= wait <= 60 for wait in found[11:])


async def test_it_rests_once_everything_is_as_it_must_be(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        writes: list[str] = []

        def count(method: str, path: str) -> Fault | None:
            if method == "PUT":
                writes.append(path)
            return None

        ground.server.faults = count
        async with controller(ground, "https://a:1") as made:
            await made.wait_initialized()
            assert len(writes) == 2
            for _ in range(3):
                assert not await made.sync()
            assert len(writes) == 2


@pytest.mark.parametrize("status", [401, 403, 409, 422, 500, 503])
async def test_failures_of_the_api_server_are_tried_again(tmp_path: Path, status: int) -> None:
    async with grounds(tmp_path) as ground:
        failed = 0

        def trouble(method: str, path: str) -> Fault | None:
            nonlocal failed
            if method == "PUT" and failed < 4:
                failed += 1
                return Fault(status=status)
            return None

        ground.server.faults = trouble
        async with controller(ground, "https://a:1") as made:
            await made.wait_initialized()
            assert failed == 4
            assert made.error == ""


async def test_a_watch_that_ends_is_no_reason_to_miss_a_change(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground, controller(ground, "https://a:1") as made:
        await made.wait_initialized()
        for number in range(3):
            ground.server.cut_watches()
            patch = {"webhooks": [], "metadata": {"labels": {"round": str(number)}}}
            await ground.client.patch_raw(MUTATING, "", NAMES[MUTATING], patch)

            async def restored() -> bool:
                return len(await ground.webhooks(MUTATING)) == 2

            await until(restored)


async def test_only_the_objects_that_matter_are_watched(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        asked: set[str] = set()

        def note(method: str, path: str) -> Fault | None:
            asked.add(path)
            return None

        ground.server.faults = note
        async with ground.replica(parts=["admission"]) as service:
            selectors = {
                informer.kind: (informer._selector.namespace, informer._selector.fields)
                for informer in service.informers._informers.values()
            }
            wanted = {
                "Secret": ("koordinator-system", "metadata.name=koordinator-webhook-certs"),
                "MutatingWebhookConfiguration": ("", f"metadata.name={NAMES[MUTATING]}"),
                "ValidatingWebhookConfiguration": ("", f"metadata.name={NAMES[VALIDATING]}"),
            }
            assert wanted.items() <= selectors.items()
