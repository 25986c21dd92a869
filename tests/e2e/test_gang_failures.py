"""Gangs on etcd, kube-apiserver and kube-scheduler, while bindings fail and processes are killed.

No gang is partly bound for longer than its pods may wait for each other, and in the end all are bound.

`KOORDPY_GANGS=100x32` plays it with 100 gangs of 32 pods; by default there are fewer.
"""

import asyncio
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.gang.membership import gang_name
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.proxy import Judge, Proxy, Trouble
from tests.e2e.racing import PodWatch, Replica, client_of, create_all, node, pod, profiles
from tests.moments import always_clean

pytestmark = pytest.mark.timeout(1800)

GANGS, MEMBERS = map(int, os.environ.get("KOORDPY_GANGS", "12x8").split("x"))
WAIT = 120.0
"""Seconds that the pods of a gang wait for each other."""
ANNOTATION = "gang.scheduling.koordinator.sh/"
CPUS_OF_A_NODE = 40


def failing_bindings(rng: random.Random) -> Judge:
    """Fail a tenth of all bindings, with any kind of failure."""
    troubles = [Trouble(409), Trouble(429), Trouble(500), Trouble(after=True), Trouble(), *[None] * 45]

    def judge(method: str, path: str) -> Trouble | None:
        is_binding = method == "POST" and path.partition("?")[0].endswith("/binding")
        return rng.choice(troubles) if is_binding else None

    return judge


class PartlyBound:
    """For how long gangs are partly bound, as a watch sees it."""

    def __init__(self, watch: PodWatch) -> None:
        self.members: Counter[str] = Counter()
        self.since: dict[str, float] = {}
        self.longest = 0.0
        watch.on_bound = self._bound

    def _bound(self, found: Pod) -> None:
        name = gang_name(found)
        self.members[name] += 1
        if self.members[name] == 1:
            self.since[name] = time.monotonic()
        if self.members[name] == MEMBERS:
            self.longest = max(self.longest, time.monotonic() - self.since.pop(name))

    def check(self) -> None:
        """Fail if a gang is or was partly bound for too long."""
        now = time.monotonic()
        longest = max([self.longest, *(now - since for since in self.since.values())])
        assert longest <= WAIT, f"a gang was partly bound for {longest:.0f} s: {self.since}"


def members(gang: str) -> list[dict[str, object]]:
    annotations = {
        f"{ANNOTATION}name": gang,
        f"{ANNOTATION}min-available": str(MEMBERS),
        f"{ANNOTATION}waiting-time": f"{WAIT:g}s",
    }
    return [pod(f"{gang}-{n}", "1", annotations=annotations) for n in range(MEMBERS)]


async def test_gangs_are_bound_whole_whatever_fails(tmp_path: Path) -> None:
    total = GANGS * MEMBERS
    with ControlPlane() as plane:
        plane.install_crds()
        judge = failing_bindings(random.Random(5))
        with Proxy(plane.url, judge, context=plane.ssl_context(), token=plane.token) as proxy:
            replica = Replica(
                tmp_path / "replica",
                {"server": proxy.url},
                profiles({"Coscheduling": {"defaultTimeout": "120s"}}),
            )
            replica.start()
            plane.start_scheduler(replica.scheduler_config())
            client = client_of(plane)
            try:
                async with always_clean(client), PodWatch(plane) as watch:
                    partly = PartlyBound(watch)

                    def complaint() -> str:
                        return f"{len(watch.bound)} of {total} are bound\n{replica.log()}\n{plane.logs()}"

                    async def reach(count: int) -> None:
                        await watch.until(lambda: len(watch.bound) >= count, complaint)
                        partly.check()

                    nodes = -(-total // CPUS_OF_A_NODE) + 1
                    await create_all(
                        client, Node, (node(f"n{n:03d}", str(CPUS_OF_A_NODE)) for n in range(nodes))
                    )
                    documents = [each for n in range(GANGS) for each in members(f"gang-{n:03d}")]
                    creating = asyncio.create_task(create_all(client, Pod, iter(documents)))
                    await reach(total // 4)
                    replica.kill()
                    replica.start()
                    await reach(total // 2)
                    assert plane.scheduler is not None
                    plane.scheduler.kill()
                    plane.start_scheduler(replica.scheduler_config())
                    await creating
                    await reach(total)
                    assert sum(proxy.troubles.values()) > 0
                    print(f"partly bound for {partly.longest:.1f} s at most; {dict(proxy.troubles)}")
            finally:
                await client.close()
                replica.kill()
