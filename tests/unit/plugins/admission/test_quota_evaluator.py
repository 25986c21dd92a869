"""Whatever is asked of several evaluators in whatever order, and whatever goes wrong, accounts stay right."""

import asyncio
import json
import random
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.admission.handler import Errored
from koordpy.api import config_model
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quantity import Quantity
from koordpy.api.scheme import decode
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.cluster.store import Store
from koordpy.lib.http1 import ConnectionLost, Response
from koordpy.lib.queue_metrics import QueueMetrics
from koordpy_plugins.admission.quota_evaluate.accessor import QuotaAccessor
from koordpy_plugins.admission.quota_evaluate.args import EvaluateQuotaArgs
from koordpy_plugins.admission.quota_evaluate.evaluator import QuotaEvaluator
from tests.eventually import PATIENCE

CHILD_REQUEST = "quota.scheduling.koordinator.sh/child-request"
LIMIT, BASE = 20, 2

GOOD, FAILS, LOST = "good", "fails", "lost"


class Server:
    """An API server with one quota, in memory. Each write takes its fate from a list; what it did is shown to
    the stores that watch it some turns of the event loop later.
    """

    def __init__(self, fates: list[str], lag: int) -> None:
        self.fates, self.lag = list(fates), lag
        self.stores: list[Store[ElasticQuota]] = []
        self.lost = 0
        self._background: set[asyncio.Task[None]] = set()
        self.document: dict[str, Any] = {
            "metadata": {
                "name": "q",
                "namespace": "ns",
                "uid": "u",
                "resourceVersion": "1",
                "annotations": {CHILD_REQUEST: json.dumps({"cpu": str(BASE)})},
            },
            "spec": {"max": {"cpu": str(LIMIT)}},
        }

    def watch(self) -> Store[ElasticQuota]:
        store = Store(ElasticQuota)
        store.apply(self.quota())
        self.stores.append(store)
        return store

    def quota(self) -> ElasticQuota:
        return decode(ElasticQuota, json.dumps(self.document).encode())

    def used(self) -> int:
        return int(json.loads(self.document["metadata"]["annotations"][CHILD_REQUEST])["cpu"])

    async def request(self, method: str, path: str, *, body: bytes = b"", **_: Any) -> Response:
        await asyncio.sleep(0)
        if method == "GET":
            return Response(200, [], json.dumps(self.document).encode())
        fate = self.fates.pop(0) if self.fates else GOOD
        if fate is FAILS:
            return Response(403, [], b'{"message":"no"}')
        sent = json.loads(body)["metadata"]
        metadata = self.document["metadata"]
        if sent["resourceVersion"] != metadata["resourceVersion"]:
            return Response(409, [], b'{"message":"modified"}')
        metadata["annotations"] = metadata["annotations"] | sent["annotations"]
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)
        task = asyncio.create_task(self._show(self.quota()))
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        if fate is LOST:
            self.lost += 1
            raise ConnectionLost("cut", answered=False)
        return Response(200, [], json.dumps(self.document).encode())

    async def _show(self, quota: ElasticQuota) -> None:
        for _ in range(self.lag):
            await asyncio.sleep(0)
        for store in self.stores:
            store.apply(quota)


async def no_pause(_: float) -> None:
    await asyncio.sleep(0)


def replica(server: Server, fresh_get: bool) -> QuotaEvaluator:
    args = {"maxRetries": 6, "retryJitter": "2ms", "conflictFreshGet": fresh_get}
    client = Client(cast(Connection, server), sleep=no_pause)
    accessor = QuotaAccessor(server.watch(), client, fresh_get=fresh_get, sleep=no_pause)
    return QuotaEvaluator(
        accessor,
        config_model.read(EvaluateQuotaArgs, args),
        rng=random.Random(1),
        metrics=QueueMetrics("test", lambda: 0.0),
        workers=2,
    )


@st.composite
def pods(draw: st.DrawFn) -> tuple[int, int, int, int | None]:
    """Which replica a pod comes to, its cpus, the turn at which it comes, and how long its caller waits."""
    leaves = draw(st.one_of(st.none(), st.none(), st.integers(0, 12)))
    return draw(st.integers(0, 1)), draw(st.integers(0, 6)), draw(st.integers(0, 15)), leaves


@settings(max_examples=200, deadline=None)
@given(
    st.lists(pods(), min_size=1, max_size=14),
    st.lists(st.sampled_from((GOOD, GOOD, FAILS, LOST)), max_size=8),
    st.integers(0, 6),
    st.booleans(),
)
def test_accounts_hold_all_that_was_admitted_and_never_more_than_the_limit(
    asked: list[tuple[int, int, int, int | None]], fates: list[str], lag: int, fresh_get: bool
) -> None:
    async def play() -> None:
        server = Server(fates, lag)
        replicas = [replica(server, fresh_get) for _ in range(2)]
        admitted: list[int] = []
        unsure: list[int] = []

        async def ask(which: int, cpu: int, turn: int, leaves: int | None) -> None:
            for _ in range(turn):
                await asyncio.sleep(0)
            charging = asyncio.ensure_future(replicas[which].charge("ns/q", {"cpu": Quantity.of(cpu)}))
            if leaves is not None:
                for _ in range(leaves):
                    await asyncio.sleep(0)
                charging.cancel()
            try:
                await charging
            except Errored:
                pass
            except asyncio.CancelledError:
                unsure.append(cpu)
            else:
                admitted.append(cpu)

        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*(ask(*pod) for pod in asked))
            while any(task.get_name().startswith("quota-") for task in asyncio.all_tasks()):
                await asyncio.sleep(0)
        assert server.used() <= LIMIT
        if server.lost:
            assert server.used() >= BASE + sum(admitted)
        else:
            assert BASE + sum(admitted) <= server.used() <= BASE + sum(admitted) + sum(unsure)

    asyncio.run(play())
