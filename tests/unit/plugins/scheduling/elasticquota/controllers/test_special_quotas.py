"""The root, system and default quotas are created once."""

from koordpy.cluster.errors import AlreadyExists, Forbidden
from koordpy_plugins.scheduling.elasticquota.controllers.special_quotas import SpecialQuotas

from .quotas import PREFIX, Quotas


async def test_missing_quotas_are_created_with_the_maximums_of_the_arguments() -> None:
    quotas = Quotas(default_quota_group_max={"cpu": "10"}, system_quota_group_max={"memory": 1024})
    special = SpecialQuotas(quotas.args, quotas.handle)
    assert await special.create_once()
    found = {document["metadata"]["name"]: document for document in quotas.created}
    assert list(found) == ["koordinator-root-quota", "koordinator-system-quota", "koordinator-default-quota"]
    assert {document["metadata"]["namespace"] for document in quotas.created} == {"koordinator-system"}
    assert found["koordinator-default-quota"]["spec"] == {"max": {"cpu": "10"}}
    assert found["koordinator-system-quota"]["spec"] == {"max": {"memory": "1024"}}
    assert found["koordinator-root-quota"]["spec"] == {}
    assert found["koordinator-root-quota"]["metadata"]["labels"] == {
        f"{PREFIX}is-parent": "true",
        f"{PREFIX}allow-lent-resource": "false",
        f"{PREFIX}parent": "",
    }
    assert await special.create_once()
    assert len(quotas.created) == 3


async def test_a_quota_of_another_namespace_is_not_created_again() -> None:
    quotas = Quotas()
    quotas.quota("koordinator-default-quota")
    await SpecialQuotas(quotas.args, quotas.handle).create_once()
    names = [document["metadata"]["name"] for document in quotas.created]
    assert names == ["koordinator-root-quota", "koordinator-system-quota"]


async def test_what_another_process_created_meanwhile_is_no_failure() -> None:
    quotas = Quotas()
    quotas.error = AlreadyExists("POST", "/x", 409, "AlreadyExists", "taken", {}, None)
    assert await SpecialQuotas(quotas.args, quotas.handle).create_once()


async def test_a_failure_is_reported() -> None:
    quotas = Quotas()
    quotas.error = Forbidden("POST", "/x", 403, "Forbidden", "no", {}, None)
    assert not await SpecialQuotas(quotas.args, quotas.handle).create_once()
