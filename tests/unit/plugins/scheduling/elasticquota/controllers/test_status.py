"""The status of quotas: what is written, when, and what is left alone."""

from collections.abc import Callable
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.scheme import DecodeError
from koordpy.cluster.errors import ApiError, NotFound, ServerError
from koordpy_plugins.scheduling.elasticquota.controllers import status
from koordpy_plugins.scheduling.elasticquota.controllers.status import StatusWriter, status_patch

from .quotas import PREFIX, Quotas


def writer(quotas: Quotas) -> StatusWriter:
    return StatusWriter(quotas.handle, quotas.trees)


def error(kind: type[ApiError], code: int) -> ApiError:
    return kind("PATCH", "/x", code, kind.__name__, "boom", {}, None)


async def test_what_pods_request_and_use_is_written_once() -> None:
    quotas = Quotas()
    quotas.node(cpu="10", memory="10Gi")
    quotas.quota("a", min={"cpu": "4", "memory": "1Gi"})
    quotas.pod("p1", "a", cpu="1")
    quotas.pod("p2", "a", cpu="2", node="")
    quotas.trees.refresh_all()
    written = writer(quotas)
    assert await written.write()
    assert quotas.annotation("a", "request") == '{"cpu":"3"}'
    assert quotas.annotation("a", "child-request") == '{"cpu":"3"}'
    assert quotas.stored("a").status.used == {"cpu": "1"}
    assert quotas.annotation("a", "runtime") is not None
    count = len(quotas.patches)
    assert await written.write()
    assert len(quotas.patches) == count


async def test_a_pod_that_goes_leaves_only_its_quota_to_be_written() -> None:
    quotas = Quotas()
    for name in ("a", "b"):
        quotas.quota(name)
        quotas.pod(f"p-{name}", name, cpu="1")
    written = writer(quotas)
    await written.write()
    quotas.patches.clear()
    quotas.cluster.store(Pod).discard("d/p-b")
    await written.write()
    assert [name for name, _ in quotas.patches] == ["b"]
    assert quotas.stored("b").status.used == {"cpu": "0"}


async def test_a_pass_looks_only_at_quotas_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    quotas = Quotas()
    for index in range(20):
        quotas.quota(f"q{index}")
    written = writer(quotas)
    await written.write()
    await written.write()
    looked_at = _recorded(monkeypatch)
    quotas.pod("p", "q7", cpu="1")
    await written.write()
    assert set(looked_at) == {"q7"}


def _recorded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    original: Callable[..., dict[str, Any]] = status_patch

    def recorded(quota: ElasticQuota, info: Any) -> dict[str, Any]:
        names.append(quota.metadata.name)
        return original(quota, info)

    monkeypatch.setattr(status, "status_patch", recorded)
    return names


async def test_a_failed_write_is_repeated_in_the_next_pass() -> None:
    quotas = Quotas()
    quotas.quota("a")
    quotas.pod("p", "a", cpu="1")
    written = writer(quotas)
    quotas.error = error(ServerError, 500)
    assert not await written.write()
    quotas.error = None
    assert await written.write()
    assert quotas.stored("a").status.used == {"cpu": "1"}


async def test_a_quota_that_is_gone_is_no_failure() -> None:
    quotas = Quotas()
    quotas.quota("a")
    quotas.pod("p", "a", cpu="1")
    quotas.error = error(NotFound, 404)
    assert await writer(quotas).write()


async def test_an_annotation_that_cannot_be_read_stops_the_status_of_its_quota_alone() -> None:
    quotas = Quotas()
    quotas.quota("a", annotations={"request": "[]"})
    quotas.quota("b")
    for name in ("a", "b"):
        quotas.pod(f"p-{name}", name, cpu="1")
    assert await writer(quotas).write()
    assert [name for name, _ in quotas.patches] == ["b"]
    info = quotas.trees.quota("a")
    assert info is not None
    with pytest.raises(DecodeError):
        status_patch(quotas.stored("a"), info)


async def test_what_somebody_else_overwrote_is_written_again() -> None:
    quotas = Quotas()
    quotas.quota("a")
    quotas.pod("p", "a", cpu="1")
    written = writer(quotas)
    await written.write()
    await quotas.patch(
        ElasticQuota, "d", "a", {"metadata": {"annotations": {f"{PREFIX}child-request": None}}}
    )
    quotas.patches.clear()
    await written.write()
    [(_, patch)] = quotas.patches
    assert patch == {"metadata": {"annotations": {f"{PREFIX}child-request": '{"cpu":"1"}'}}}


async def test_nothing_is_kept_of_quotas_that_were_deleted() -> None:
    quotas = Quotas()
    for name in ("a", "b"):
        quotas.quota(name)
    written = writer(quotas)
    await written.write()
    quotas.cluster.store(ElasticQuota).discard("d/a")
    await written.write()
    assert set(written._seen) == {"d/b"}


def test_amounts_are_compared_by_value_and_zero_counts_like_a_missing_name() -> None:
    quotas = Quotas()
    quotas.quota("a", annotations={"request": '{"cpu":"1000m","memory":"0"}', "child-request": '{"cpu":1}'})
    quotas.pod("p", "a", cpu="1", node="")
    info = quotas.trees.quota("a")
    assert info is not None
    assert status_patch(quotas.stored("a"), info) == {}
