"""The ElasticQuota controller while its process leads, loses the Lease, and leads again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from koordpy.api.koordinator import ElasticQuota
from koordpy_plugins.scheduling.elasticquota.controllers import controller
from koordpy_plugins.scheduling.elasticquota.controllers.controller import ElasticQuotaController
from koordpy_plugins.scheduling.elasticquota.metrics import STATUS
from tests.eventually import PATIENCE

from .quotas import Quotas


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "STATUS_INTERVAL", 0.01)
    monkeypatch.setattr(controller, "RUNTIME_INTERVAL", 0.01)


@asynccontextmanager
async def leading(made: ElasticQuotaController) -> AsyncIterator[None]:
    running = asyncio.create_task(made.run())
    try:
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)


async def test_the_leader_writes_status_and_runtime_and_has_metrics() -> None:
    quotas = Quotas()
    quotas.node(cpu="10", memory="1Gi")
    quotas.quota("a", min={"cpu": "2"})
    made = ElasticQuotaController(quotas.args, quotas.handle, quotas.trees)
    async with leading(made):
        quotas.pod("p", "a", cpu="1")
        await until(lambda: quotas.stored("a").status.used == {"cpu": "1"})
        await until(lambda: '"cpu":"1"' in (quotas.annotation("a", "runtime") or ""))
        [family] = STATUS.collect()
        assert {sample.labels["name"] for sample in family.samples} >= {"a", "koordinator-default-quota"}
    [family] = STATUS.collect()
    assert family.samples == []


async def test_the_runtime_is_not_computed_where_runtime_quotas_are_off() -> None:
    quotas = Quotas(enable_runtime_quota=False)
    quotas.node(cpu="10")
    quotas.quota("a", min={"cpu": "2"})
    quotas.pod("p", "a", cpu="1")
    async with leading(ElasticQuotaController(quotas.args, quotas.handle, quotas.trees)):
        await until(lambda: quotas.stored("a").status.used == {"cpu": "1"})
    assert quotas.annotation("a", "runtime") is None


async def test_after_the_lease_was_lost_what_others_wrote_is_compared_again() -> None:
    quotas = Quotas()
    quotas.quota("a")
    quotas.pod("p", "a", cpu="1")
    made = ElasticQuotaController(quotas.args, quotas.handle, quotas.trees)
    async with leading(made):
        await until(lambda: quotas.stored("a").status.used == {"cpu": "1"})
    await quotas.patch(ElasticQuota, "d", "a", {"status": {"used": {"cpu": "5"}}})
    written = len(quotas.patches)
    quotas.pod("p", "a", cpu="1", version="2")
    assert len(quotas.patches) == written
    async with leading(made):
        await until(lambda: quotas.stored("a").status.used == {"cpu": "1"})
    assert quotas.annotation("a", "request") == '{"cpu":"1"}'
