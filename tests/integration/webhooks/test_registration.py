"""The webhook configurations of a cluster, completed by one replica or several."""

import asyncio
import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from koordpy.admission.serving.controller import FirstSyncError
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import Fault
from tests.eventually import PATIENCE
from tests.integration.webhooks.grounds import (
    MUTATING,
    NAMES,
    VALIDATING,
    Document,
    Grounds,
    grounds,
    shipped,
    until,
)
from tests.processes import certificates_of, webhooks_of

ON_BY_DEFAULT = {
    "mpod-create.koordinator.sh",
    "mpod-update.koordinator.sh",
    "melasticquota.koordinator.sh",
    "vpod.koordinator.sh",
    "vpodbinding.koordinator.sh",
    "velasticquota.koordinator.sh",
}
ALL_GATES = {
    "ReservationMutatingWebhook": True,
    "NodeMutatingWebhook": True,
    "NodeValidatingWebhook": True,
    "ConfigMapValidatingWebhook": True,
}


async def test_webhooks_that_are_served_are_registered_by_url_and_others_taken_out(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground, ground.replica(admission={"registration": {}}) as service:
        webhooks = {**await ground.webhooks(MUTATING), **await ground.webhooks(VALIDATING)}
        assert set(webhooks) == ON_BY_DEFAULT
        port = service.listeners["admission"].port
        config = webhooks["mpod-create.koordinator.sh"]["clientConfig"]
        assert config["url"] == f"https://127.0.0.1:{port}/mutate-pod"
        assert "service" not in config


async def test_a_webhook_comes_back_as_it_was_when_its_gate_is_on_again(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        before = {kind: await ground.webhooks(kind) for kind in NAMES}
        async with ground.replica(certificates={"host": ""}):
            assert "vnode.koordinator.sh" not in await ground.webhooks(VALIDATING)
        async with ground.replica(certificates={"host": ""}, featureGates=ALL_GATES):
            for kind, were in before.items():
                now = await ground.webhooks(kind)
                for webhook in now.values():
                    assert webhook["clientConfig"].pop("caBundle")
                assert now == were


async def test_policies_and_foreign_fields_stay(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        patch: Document = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "ours"}}}
        await ground.client.patch_raw(MUTATING, "", NAMES[MUTATING], patch)
        other = {**shipped(MUTATING), "metadata": {"name": "somebody-elses"}}
        other = await ground.client.create_raw(MUTATING, "", other)
        async with ground.replica():
            meta = (await ground.configuration(MUTATING))["metadata"]
            assert meta["labels"] == {"team": "a"}
            assert meta["annotations"]["note"] == "ours"
            template = json.loads(meta["annotations"]["template"])
            assert len(template) == 5
            webhook = (await ground.webhooks(MUTATING))["mpod-update.koordinator.sh"]
            assert webhook["objectSelector"] == template[1]["objectSelector"]
            assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Ignore", 10)
            assert await ground.client.get_raw(MUTATING, "", "somebody-elses") == other


async def test_a_reverted_change_is_made_again(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground, ground.replica():
        manifest = shipped(MUTATING)["webhooks"]
        await ground.client.patch_raw(MUTATING, "", NAMES[MUTATING], {"webhooks": manifest})

        async def completed() -> bool:
            webhooks = (await ground.webhooks(MUTATING)).values()
            return len(webhooks) == 3 and all("url" in webhook["clientConfig"] for webhook in webhooks)

        await until(completed)


async def test_replicas_agree_and_rest(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        at_service = {"host": "", "serviceName": "other"}
        services = [ground.make(name, certificates=at_service) for name in "abc"]
        try:
            await asyncio.gather(*(service.start() for service in services))
            await asyncio.gather(*(service.wait_ready(PATIENCE) for service in services))
            versions = await _versions(ground)
            await asyncio.gather(*(_sync(service) for service in services))
            assert await _versions(ground) == versions
            webhook = (await ground.webhooks(MUTATING))["mpod-create.koordinator.sh"]
            assert webhook["clientConfig"]["service"] == {
                "namespace": "koordinator-system",
                "name": "other",
                "path": "/mutate-pod",
                "port": 443,
            }
        finally:
            await asyncio.gather(*(service.stop() for service in services))


async def test_a_concurrent_write_is_not_lost(tmp_path: Path) -> None:
    """A configuration is changed between our read and our write: the write is refused and done again."""
    async with grounds(tmp_path) as ground:
        changed: list[asyncio.Task[Document]] = []

        def meddle(method: str, path: str) -> Fault | None:
            if method == "PUT" and path.endswith(NAMES[MUTATING]) and not changed:
                patch = {"metadata": {"labels": {"late": "yes"}}}
                changed.append(
                    asyncio.create_task(ground.client.patch_raw(MUTATING, "", NAMES[MUTATING], patch))
                )
                return Fault(delay=0.3)
            return None

        ground.server.faults = meddle
        async with ground.replica():
            await changed[0]
            document = await ground.configuration(MUTATING)
            assert document["metadata"]["labels"] == {"late": "yes"}
            assert "url" in document["webhooks"][0]["clientConfig"]


async def test_bundles_are_left_to_an_injector(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        kept = {"enabled": True, "injectCaBundle": False}
        async with ground.replica(admission={"registration": kept}) as service:
            webhooks = await ground.webhooks(MUTATING)
            assert all("caBundle" not in webhook["clientConfig"] for webhook in webhooks.values())
            injected = (await ground.secret()).ca_cert
            for webhook in webhooks.values():
                webhook["clientConfig"]["caBundle"] = base64.b64encode(injected).decode()
            patch = {"webhooks": list(webhooks.values())}
            await ground.client.patch_raw(MUTATING, "", NAMES[MUTATING], patch)
            assert not await _sync(service)
            assert await ground.webhooks(MUTATING) == webhooks


@pytest.mark.parametrize("kind", NAMES)
async def test_without_a_configuration_the_webhooks_do_not_start(tmp_path: Path, kind: Any) -> None:
    async with grounds(tmp_path) as ground:
        await ground.client.delete_raw(kind, "", NAMES[kind])
        await _fails_to_prepare(ground, f"not found {kind.kind} {NAMES[kind]}")


async def test_an_unreadable_template_is_named(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        patch = {"metadata": {"annotations": {"template": "[1"}}}
        await ground.client.patch_raw(VALIDATING, "", NAMES[VALIDATING], patch)
        await _fails_to_prepare(ground, f"{NAMES[VALIDATING]}: annotation template:")


async def test_an_api_server_that_fails_for_a_while_is_waited_for(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        refused = 0

        def trouble(method: str, path: str) -> Fault | None:
            nonlocal refused
            if "secrets" in path and refused < 5:
                refused += 1
                return Fault(status=403)
            return None

        ground.server.faults = trouble
        async with ground.replica():
            assert refused == 5


async def test_with_the_webhook_framework_off_nothing_is_served_or_registered(tmp_path: Path) -> None:
    async with grounds(tmp_path) as ground:
        before = {kind: await ground.configuration(kind) for kind in NAMES}
        async with ground.replica(featureGates={"WebhookFramework": False}) as service:
            assert service.listeners == {}
        assert {kind: await ground.configuration(kind) for kind in NAMES} == before


async def _fails_to_prepare(ground: Grounds, error: str) -> None:
    service = ground.make()
    controller = webhooks_of(service).controller
    assert controller is not None
    try:
        await controller.start()
        await until(lambda: error in controller.error)
        told = f"failed to start webhook controller for waiting more than 0s: .*{re.escape(error)}"
        with pytest.raises(FirstSyncError, match=told):
            await controller.wait_initialized(0)
        assert webhooks_of(service).problem() is not None
    finally:
        await service.stop()


async def _sync(service: Process) -> bool:
    return await certificates_of(service).sync()


async def _versions(ground: Grounds) -> list[str]:
    documents = [await ground.configuration(kind) for kind in NAMES]
    return [document["metadata"]["resourceVersion"] for document in documents]
