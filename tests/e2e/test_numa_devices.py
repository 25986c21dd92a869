"""CPUs and devices that pods of two profiles race for, while bindings fail and koordpy is killed.

At no moment of a watch do two pods have the same CPU, or more of a device than it has; and what koordpy says
it has allocated is what the annotations of the pods say.

`KOORDPY_DEVICE_PODS=600x60` plays it with 600 pods on 60 nodes. By default there are fewer, on more nodes for
their number: whatever the order in which they are bound, some node must have two free GPUs for the last one.
"""

import asyncio
import os
import random
from collections import defaultdict
from pathlib import Path

import pytest

from koordpy.api import device_allocations, extension
from koordpy.api.core import Node, Pod, PriorityClass
from koordpy.api.device import Device
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.scheme import decode, resource_of
from koordpy.audit import auditing
from koordpy.audit.finding import Outcome, Report
from koordpy.audit.objects import Objects
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.device_nodes import (
    HALF_A_GPU,
    ONE_GPU,
    PROD,
    Books,
    Document,
    asking,
    device,
    device_node,
    topology,
)
from tests.e2e.proxy import Judge, Proxy, Trouble
from tests.e2e.racing import NAMESPACE, PodWatch, Replica, all_of, client_of, create_all, profiles
from tests.moments import always_clean

pytestmark = pytest.mark.timeout(1800)

PODS, NODES = map(int, os.environ.get("KOORDPY_DEVICE_PODS", "120x14").split("x"))
SCHEDULERS = ("default-scheduler", "koord-scheduler")
PLUGINS: dict[str, Document] = {"NodeNUMAResource": {}, "DeviceShare": {}, "Reservation": {}}
SUMMARIES = "/apis/v1/plugins/DeviceShare/nodeDeviceSummaries"


def failing_bindings(rng: random.Random) -> Judge:
    """Fail a tenth of all bindings, with any kind of failure."""
    troubles = [Trouble(409), Trouble(429), Trouble(500), Trouble(after=True), Trouble(), *[None] * 45]

    def judge(method: str, path: str) -> Trouble | None:
        is_binding = method == "POST" and path.partition("?")[0].endswith("/binding")
        return rng.choice(troubles) if is_binding else None

    return judge


def asking_pod(name: str, number: int) -> Document:
    """Return one of ten kinds of pods, for one of the two profiles."""
    scheduler = SCHEDULERS[number // 10 % 2]
    match number % 10:
        case 0 | 1 | 2 | 3:
            return asking(name, "4", scheduler, {}, bound=True)
        case 4 | 5:
            return asking(name, "100m", scheduler, HALF_A_GPU, bound=False)
        case 6 | 7:
            return asking(name, "2", scheduler, ONE_GPU, bound=True)
        case 8:
            both = {**ONE_GPU, extension.RDMA: "100"}
            return asking(name, "100m", scheduler, both, bound=False, joint=True)
        case _:
            two = dict.fromkeys(ONE_GPU, "200")
            return asking(name, "4", scheduler, two, bound=True)


def allocated(watch: PodWatch) -> dict[str, set[str]]:
    """Return the pods with devices by node, as their annotations say."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for pod in watch.bound.values():
        if device_allocations.of(pod.metadata.annotations):
            found[pod.spec.node_name].add(pod.metadata.key)
    return dict(found)


def audited(names: list[str], watch: PodWatch) -> Report:
    """Return what the audit finds among the bound pods."""
    return auditing.audit(
        Objects.of(
            {
                Node: [decode(Node, device_node(name)) for name in names],
                Pod: list(watch.bound.values()),
                NodeResourceTopology: [decode(NodeResourceTopology, topology(name)) for name in names],
                Device: [decode(Device, device(name)) for name in names],
            }
        )
    )


def said(replica: Replica) -> dict[str, set[str]]:
    """Return the pods with devices by node, as koordpy's ledger says."""
    summaries = replica.get(SUMMARIES).raise_for_status().json()
    found = {
        node: {pod for pods in summary["allocateSet"].values() for pod in pods}
        for node, summary in summaries.items()
    }
    return {node: pods for node, pods in found.items() if pods}


async def test_no_cpu_and_no_device_is_given_twice_whatever_fails(tmp_path: Path) -> None:
    with ControlPlane() as plane:
        plane.install_crds()
        client = client_of(plane)
        judge = failing_bindings(random.Random(7))
        with Proxy(plane.url, judge, context=plane.ssl_context(), token=plane.token) as proxy:
            replica = Replica(tmp_path / "replica", {"server": proxy.url}, profiles(PLUGINS, SCHEDULERS))
            try:
                names = [f"n{number:03d}" for number in range(NODES)]
                await client.create_raw(resource_of(PriorityClass), "", PROD)
                await create_all(client, Node, map(device_node, names))
                for type_, make in ((NodeResourceTopology, topology), (Device, device)):
                    resource = resource_of(type_)
                    await all_of(client.create_raw(resource, "", make(name)) for name in names)
                replica.start()
                config = replica.scheduler_config()
                [profile] = config["profiles"]
                config["profiles"] = [{**profile, "schedulerName": name} for name in SCHEDULERS]
                plane.start_scheduler(config)
                async with always_clean(client), PodWatch(plane) as watch:
                    books = Books()
                    watch.on_bound, watch.on_gone = books.bound, books.gone

                    def complaint() -> str:
                        found = [f"{len(watch.bound)} of {PODS} are bound", *books.problems[:20]]
                        room = f"CPUs and whole GPUs that are free: {[books.free(name) for name in names]}"
                        told = replica.said_of(watch.waiting()[:3])
                        return "\n".join([*found, room, told, replica.log(), plane.logs()])

                    async def reach(count: int) -> None:
                        await watch.until(
                            lambda: len(watch.bound) >= count or bool(books.problems), complaint
                        )
                        assert books.problems == [], complaint()
                        report = audited(names, watch)
                        done = {check.check for check in report.checks if check.outcome is Outcome.DONE}
                        assert {"cpus", "devices"} <= done, report.checks
                        assert report.findings == []

                    documents = [asking_pod(f"p{number:04d}", number) for number in range(PODS)]
                    creating = asyncio.create_task(create_all(client, Pod, documents))
                    await reach(PODS // 3)
                    replica.kill()
                    replica.start()
                    await reach(PODS * 2 // 3)
                    replica.kill()
                    replica.start()
                    await creating
                    await reach(PODS)
                    going = list(watch.bound.values())[::3]
                    await all_of(
                        client.delete(Pod, NAMESPACE, each.metadata.name, grace_period_seconds=0)
                        for each in going
                    )
                    gone = {each.metadata.uid for each in going}
                    await watch.until(lambda: gone.isdisjoint(watch.bound), complaint)
                    again = [asking_pod(f"q{number:04d}", number) for number in range(len(going))]
                    await create_all(client, Pod, again)
                    await reach(PODS)
                    await watch.until(lambda: said(replica) == allocated(watch), complaint)
                    assert sum(proxy.troubles.values()) > 0
                    assert books.used(extension.GPU_CORE) > 0
                    print(f"{len(watch.bound)} pods on {NODES} nodes; {dict(proxy.troubles)}")
            finally:
                await client.close()
                replica.kill()
