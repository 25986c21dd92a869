"""Quota evaluation with an API server that is slow, wrong or unreachable, and with disconnected callers."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from koordpy.admission.handler import Errored
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quantity import Quantity
from koordpy.api.scheme import decode
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.embedded.apiserver.server import Fault
from koordpy.lib.queue_metrics import QueueMetrics
from koordpy_plugins.admission.quota_evaluate.accessor import QuotaAccessor
from koordpy_plugins.admission.quota_evaluate.args import EvaluateQuotaArgs
from koordpy_plugins.admission.quota_evaluate.evaluator import TIMED_OUT, QuotaEvaluator
from tests.eventually import PATIENCE
from tests.integration.admission.quotas import CHILD_REQUEST, World, no_pause, pod_of, world
from tests.integration.service.stage import review_of, serving, until
from tests.servers.caller import Caller, head
from tests.servers.raw import Exchange, RawServer

JSON = "content-type: application/json\r\n"
PATH = "/validate-pod"
FRESH: Any = {"conflictFreshGet": True}


@pytest.fixture
async def quotas() -> AsyncIterator[World]:
    async with world() as made:
        yield made


def faulty(*faults: Fault | None) -> Any:
    """Return the faults of the next writes, in order; the last one stays."""
    left = list(faults)

    def fault(method: str) -> Fault | None:
        if method != "PATCH":
            return None
        return left.pop(0) if len(left) > 1 else left[0]

    return fault


# --- conflicts -----------------------------------------------------------------------------------


async def test_after_a_conflict_pods_that_still_fit_are_admitted(quotas: World) -> None:
    await quotas.add_quota("q", "10")
    replica = await quotas.replica(follows=False, **FRESH)
    await quotas.set_used("q", "6")
    before = quotas.writes
    refusals = await asyncio.gather(*(replica.refusal(pod_of("q")) for _ in range(4)))
    assert refusals == [""] * 4
    assert await quotas.used("q") == "10"
    assert quotas.writes - before == 2


@pytest.mark.parametrize(("used", "left"), [("6", '{"cpu":"8"}'), ("9", '{"cpu":"10","other.io/x":"3"}')])
async def test_pods_that_are_charged_again_together_drop_what_the_maximum_does_not_name(
    quotas: World, used: str, left: str
) -> None:
    await quotas.add_quota("q", "10")
    replica = await quotas.replica(follows=False, **FRESH)
    annotations = {CHILD_REQUEST: json.dumps({"cpu": used, "other.io/x": "3"})}
    await quotas.client.patch(ElasticQuota, "default", "q", {"metadata": {"annotations": annotations}})
    await asyncio.gather(*(replica.refusal(pod_of("q")) for _ in range(2)))
    quota = await quotas.client.get(ElasticQuota, "default", "q")
    assert quota.metadata.annotations[CHILD_REQUEST] == left


async def test_after_a_conflict_pods_are_checked_again_if_not_all_fit(quotas: World) -> None:
    await quotas.add_quota("q", "10")
    replica = await quotas.replica(follows=False, **FRESH)
    await quotas.set_used("q", "8")
    refusals = await asyncio.gather(*(replica.refusal(pod_of("q", cpu)) for cpu in ("1", "3", "1", "1")))
    assert [bool(refusal) for refusal in refusals] == [False, True, False, True]
    assert "requested: cpu=3, used: cpu=9, limited: cpu=10" in refusals[1]
    assert await quotas.used("q") == "10"


async def test_after_a_conflict_a_smaller_quota_is_taken_as_it_is_now(quotas: World) -> None:
    await quotas.add_quota("q", "10")
    replica = await quotas.replica(follows=False, **FRESH)
    await quotas.client.patch(ElasticQuota, "default", "q", {"spec": {"max": {"memory": "1Gi"}}})
    await quotas.client.patch(ElasticQuota, "default", "q", {"spec": {"max": {"cpu": "1"}}})
    refusals = await asyncio.gather(*(replica.refusal(pod_of("q")) for _ in range(2)))
    assert [bool(refusal) for refusal in refusals] == [False, True]
    assert await quotas.used("q") == "1"


async def test_a_view_that_stays_old_ends_in_the_conflict(quotas: World) -> None:
    await quotas.add_quota("q", "10")
    replica = await quotas.replica(follows=False)
    await quotas.set_used("q", "1")
    before = quotas.writes
    assert "the object has been modified" in await replica.refusal(pod_of("q"))
    assert quotas.writes - before == 4
    assert await quotas.used("q") == "1"


async def test_a_conflict_whose_fresh_read_fails_is_still_a_conflict(quotas: World) -> None:
    await quotas.add_quota("q", "10")
    replica = await quotas.replica(follows=False, **FRESH)
    await quotas.set_used("q", "1")
    quotas.fault = lambda method: Fault(status=403) if method == "GET" else None
    assert "the object has been modified" in await replica.refusal(pod_of("q"))
    quotas.fault = lambda _: None
    assert await replica.refusal(pod_of("q")) == ""
    assert await quotas.used("q") == "2"


async def test_a_quota_that_is_deleted_meanwhile_refuses(quotas: World) -> None:
    await quotas.add_quota("q", "10")
    replica = await quotas.replica(follows=False)
    await quotas.client.delete(ElasticQuota, "default", "q")
    assert '"q" not found' in await replica.refusal(pod_of("q"))


# --- errors --------------------------------------------------------------------------------------


async def test_a_write_that_fails_once_is_made_again(quotas: World) -> None:
    await quotas.add_quota("q", "10")
    replica = await quotas.replica()
    quotas.fault = faulty(Fault(status=500), Fault(status=403), None)
    assert await replica.refusal(pod_of("q")) == ""
    assert (await quotas.used("q"), quotas.writes) == ("1", 3)


async def test_a_write_that_keeps_failing_refuses_the_pods_and_charges_nothing(quotas: World) -> None:
    await quotas.add_quota("q", "10")
    replica = await quotas.replica()
    quotas.fault = faulty(Fault(status=500))
    refusals = await asyncio.gather(*(replica.refusal(pod_of("q")) for _ in range(3)))
    assert all(refusals)
    assert await quotas.used("q") is None
    quotas.fault = faulty(None)
    assert await replica.refusal(pod_of("q")) == ""
    assert await quotas.used("q") == "1"


async def test_a_lost_answer_never_undercharges(quotas: World) -> None:
    """The write took effect without an answer: the pod may be charged twice, but never less than once."""
    await quotas.add_quota("q", "3")
    replica = await quotas.replica(**FRESH)
    quotas.fault = faulty(Fault(cut=True, after=True), None)
    assert await replica.refusal(pod_of("q")) == ""
    admitted = 1
    while await replica.refusal(pod_of("q")) == "":
        admitted += 1
    used = await quotas.used("q")
    assert used is not None
    assert admitted <= int(used) <= 3


async def test_an_api_server_that_is_gone_refuses(quotas: World) -> None:
    await quotas.add_quota("q", "10")
    replica = await quotas.replica(follows=False)
    await quotas.server.stop()
    assert await replica.refusal(pod_of("q")) != ""
    await quotas.server.start()
    assert await replica.refusal(pod_of("q")) == ""


async def test_a_client_that_disconnects_while_its_pod_waits_is_not_charged(tmp_path: Path) -> None:
    gates = {"EnableQuotaAdmission": True}
    async with serving(tmp_path, parts=["admission"], featureGates=gates) as stage, AsyncExitStack() as stack:
        quotas = World(stage.server, stage.client, stack)
        await quotas.add_quota("q", "10")
        await until(lambda: len(stage.process.cluster.store(ElasticQuota)) == 1)
        go_on = asyncio.Event()
        quotas.fault = lambda _: Fault(held=go_on)
        in_flight = stage.chains[PATH].in_flight._value
        url, tls = stage.url("admission"), stage.trust()
        bodies = [json.dumps(review_of(pod_of("q", cpu))).encode() for cpu in ("1", "5")]
        async with Caller(url, tls) as stays, Caller(url, tls) as leaves:
            await stays.send(head(PATH, len(bodies[0]), JSON) + bodies[0])
            await until(lambda: quotas.writes == 1)
            await leaves.send(head(PATH, len(bodies[1]), JSON) + bodies[1])
            await until(lambda: in_flight.get() == 2)
            leaves.hang_up()
            await until(lambda: in_flight.get() == 1)
            go_on.set()
            assert json.loads((await stays.answer()).body)["response"]["allowed"] is True
            again = await stays.post(PATH, bodies[0], JSON)
            assert json.loads(again.body)["response"]["allowed"] is True
        assert await quotas.used("q") == "2"


# --- time, cancellation --------------------------------------------------------------------------


class Slow:
    """An API server with one quota whose writes are answered when the test releases them."""

    def __init__(self) -> None:
        self.quota: dict[str, Any] = {
            "metadata": {"name": "q", "namespace": "ns", "resourceVersion": "1", "annotations": {}},
            "spec": {"max": {"cpu": "100"}},
        }
        self.go_on = asyncio.Event()
        self.arrived: asyncio.Queue[str] = asyncio.Queue()
        self.in_flight = self.most_in_flight = 0
        self.written: list[dict[str, str]] = []
        """The usage after each write."""

    async def answer(self, exchange: Exchange) -> None:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        self.arrived.put_nowait(exchange.request.target)
        try:
            await self.go_on.wait()
        finally:
            self.in_flight -= 1
        metadata = json.loads(exchange.request.body)["metadata"]
        self.quota["metadata"]["annotations"] |= metadata["annotations"]
        self.quota["metadata"]["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        self.written.append(self.used())
        await exchange.reply(200, json.dumps(self.quota).encode())

    def used(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(
            self.quota["metadata"]["annotations"].get("quota.scheduling.koordinator.sh/child-request", "{}")
        )
        return found


class Evaluation:
    """An evaluator on a slow API server."""

    def __init__(
        self, slow: Slow, client: Client, *, patience: float = 10.0, workers: int = 16, quotas: int = 1
    ) -> None:
        cluster = Cluster()
        for index in range(quotas):
            quota = json.loads(json.dumps(slow.quota))
            quota["metadata"]["name"] = f"q{index}" if index else "q"
            cluster.store(ElasticQuota).apply(decode(ElasticQuota, quota))
        accessor = QuotaAccessor(cluster.store(ElasticQuota), client, fresh_get=False, sleep=no_pause)
        loop = asyncio.get_running_loop()
        self.evaluator = QuotaEvaluator(
            accessor,
            EvaluateQuotaArgs(),
            rng=random.Random(1),
            metrics=QueueMetrics("test", loop.time),
            patience=patience,
            workers=workers,
        )

    def charge(self, cpu: int = 1, key: str = "ns/q") -> "asyncio.Task[None]":
        return asyncio.create_task(self.evaluator.charge(key, {"cpu": Quantity.of(cpu)}))


@pytest.fixture
async def slow() -> AsyncIterator[tuple[Slow, Client]]:
    api = Slow()
    async with RawServer(api.answer) as server:
        client = Client(Connection.to(Access(server.url)), sleep=no_pause)
        yield api, client
        await client.close()


async def test_callers_wait_no_longer_than_their_patience(slow: tuple[Slow, Client]) -> None:
    api, client = slow
    evaluation = Evaluation(api, client, patience=0.05)
    for _ in range(2):  # a hanging write does not block the next ones indefinitely
        with pytest.raises(Errored, match=TIMED_OUT) as refused:
            await evaluation.charge()
        assert refused.value.code == 400
    api.go_on.set()
    evaluation.evaluator._patience = PATIENCE  # the answer comes now, but not in no time
    await evaluation.charge(5)
    assert {"cpu": "5"} in api.written  # and possibly one of the later ones, which may reach the server late


async def test_pods_that_come_during_a_write_form_the_next_batch(slow: tuple[Slow, Client]) -> None:
    api, client = slow
    evaluation = Evaluation(api, client)
    first = evaluation.charge()
    await api.arrived.get()
    others = [evaluation.charge() for _ in range(10)]
    await asyncio.sleep(0)
    api.go_on.set()
    await asyncio.gather(first, *others)
    assert api.used() == {"cpu": "11"}
    assert api.arrived.qsize() == 1


async def test_a_caller_cancelled_before_its_turn_is_not_charged(slow: tuple[Slow, Client]) -> None:
    api, client = slow
    evaluation = Evaluation(api, client)
    first = evaluation.charge()
    await api.arrived.get()
    gone, stays = evaluation.charge(50), evaluation.charge(2)
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    api.go_on.set()
    await asyncio.gather(first, stays)
    assert gone.cancelled()
    assert api.used() == {"cpu": "3"}


async def test_a_caller_cancelled_during_the_write_does_not_stop_the_evaluator(
    slow: tuple[Slow, Client],
) -> None:
    api, client = slow
    evaluation = Evaluation(api, client)
    gone = evaluation.charge(7)
    await api.arrived.get()
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    api.go_on.set()
    await evaluation.charge()
    assert api.used() == {"cpu": "8"}  # the next caller sees what was written for the cancelled one


async def test_a_batch_without_callers_is_not_written(slow: tuple[Slow, Client]) -> None:
    api, client = slow
    evaluation = Evaluation(api, client)
    first = evaluation.charge()
    await api.arrived.get()
    gone = [evaluation.charge(9) for _ in range(5)]
    await asyncio.sleep(0)
    for task in gone:
        task.cancel()
    api.go_on.set()
    await first
    await asyncio.gather(*gone, return_exceptions=True)
    await evaluation.charge()
    assert api.used() == {"cpu": "2"}


async def test_the_number_of_quotas_processed_at_once_is_limited(slow: tuple[Slow, Client]) -> None:
    api, client = slow
    evaluation = Evaluation(api, client, workers=3, quotas=8)
    keys = ["ns/q", *(f"ns/q{index}" for index in range(1, 8))]
    tasks = [evaluation.charge(key=key) for key in keys]
    for _ in range(3):
        await api.arrived.get()
    await asyncio.sleep(0.05)
    assert api.arrived.empty()
    api.go_on.set()
    await asyncio.gather(*tasks)
    assert api.most_in_flight == 3


async def test_a_stopped_evaluator_fails_waiting_callers(slow: tuple[Slow, Client]) -> None:
    api, client = slow
    evaluation = Evaluation(api, client)
    waiting = [evaluation.charge() for _ in range(2)]
    await api.arrived.get()
    waiting.append(evaluation.charge())
    await asyncio.sleep(0)
    (worker,) = [task for task in asyncio.all_tasks() if task.get_name() == "quota-ns/q"]
    worker.cancel()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [str(outcome) for outcome in outcomes] == [
        "Internal error occurred: elastic quota evaluation was stopped"
    ] * 3
    api.go_on.set()
    await evaluation.charge()


async def test_nothing_is_left_of_requests_that_are_over(slow: tuple[Slow, Client]) -> None:
    api, client = slow
    api.go_on.set()
    evaluation = Evaluation(api, client)
    await asyncio.gather(*(evaluation.charge() for _ in range(20)))
    await asyncio.sleep(0)
    assert [task for task in asyncio.all_tasks() if task.get_name().startswith("quota-")] == []


async def test_an_unexpected_exception_fails_all_callers_and_stops_nothing(
    slow: tuple[Slow, Client], caplog: pytest.LogCaptureFixture
) -> None:
    api, client = slow
    api.go_on.set()
    api.quota["spec"] = {"max": {"cpu": "no amount"}}
    evaluation = Evaluation(api, client)
    outcomes = await asyncio.gather(*(evaluation.charge() for _ in range(2)), return_exceptions=True)
    assert [type(outcome).__name__ for outcome in outcomes] == ["QuantityError"] * 2
    assert "quota ns/q: evaluation failed" in caplog.text
