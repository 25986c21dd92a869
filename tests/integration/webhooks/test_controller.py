"""When the controller works, and when it waits."""

import asyncio
from pathlib import Path

import pytest

from koordpy.admission.serving.certificate_source import Given
from koordpy.admission.serving.configuration import Target
from koordpy.admission.serving.controller import Controller
from koordpy.admission.serving.registrar import Registrar
from koordpy.embedded.apiserver import Fault
from koordpy.lib import certificates
from koordpy.lib.clock import SystemClock
from tests.integration.webhooks.grounds import MUTATING, NAMES, VALIDATING, Grounds, grounds, until
from tests.processes import certificates_of

PATHS = ("/mutate-pod", "/validate-pod")


def controller(ground: Grounds, url: str, **options: object) -> Controller:
    """Return a controller of a replica that is called at `url`."""
    folder = ground.folder / "certs"
    certificates.ensure(folder, ["127.0.0.1"], SystemClock().now())
    target = Target(PATHS, "ns", "svc", url)
    registrar = Registrar(ground.client, target, NAMES[MUTATING], NAMES[VALIDATING])
    return Controller(Given(folder), registrar, ground.client, **options)  # type: ignore[arg-type]


async def test_replicas_of_different_opinions_write_less_and_less_often(tmp_path: Path) -> None:
    """While a new version is rolled out, old and new undo each other's work; that must not be a storm."""
    waits: dict[str, list[float]] = {"old": [], "new": []}

    async with grounds(tmp_path) as ground:

        def waiting(name: str) -> Controller:
            async def sleep(seconds: float) -> None:
                waits[name].append(seconds)
                await asyncio.sleep(0.001)

            return controller(ground, f"https://{name}:1", sleep=sleep)

        rivals = [waiting(name) for name in waits]
        for rival in rivals:
            await rival.start()
        try:
            await until(lambda: all(len(found) >= 14 for found in waits.values()))
        finally:
            for rival in rivals:
                await rival.stop()
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
        made = controller(ground, "https://a:1")
        await made.start()
        await made.wait_initialized()
        assert len(writes) == 2
        for _ in range(3):
            assert not await made.sync()
        assert len(writes) == 2
        await made.stop()


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
        made = controller(ground, "https://a:1")
        await made.start()
        await made.wait_initialized()
        assert failed == 4
        assert made.error == ""
        await made.stop()


async def test_a_watch_that_ends_is_no_reason_to_miss_a_change(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        made = controller(ground, "https://a:1")
        await made.start()
        await made.wait_initialized()
        for number in range(3):
            ground.server.cut_watches()
            patch = {"webhooks": [], "metadata": {"labels": {"round": str(number)}}}
            await ground.client.patch_raw(MUTATING, "", NAMES[MUTATING], patch)

            async def restored() -> bool:
                return len(await ground.webhooks(MUTATING)) == 2

            await until(restored)
        await made.stop()


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
                for informer in certificates_of(service)._informers._informers.values()
            }
            assert selectors == {
                "Secret": ("koordinator-system", "metadata.name=koordinator-webhook-certs"),
                "MutatingWebhookConfiguration": ("", f"metadata.name={NAMES[MUTATING]}"),
                "ValidatingWebhookConfiguration": ("", f"metadata.name={NAMES[VALIDATING]}"),
            }
