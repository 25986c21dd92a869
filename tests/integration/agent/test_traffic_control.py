"""Traffic control and classification in a network namespace of the test's own, with packets really sent.

A machine that gives no network namespace, or whose kernel lacks HTB or nf_tables, cannot run these tests.
"""

import asyncio
import ctypes
import os
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pyroute2 import AsyncIPRoute, NetlinkError

from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.pauses import Pause, Scope
from koordpy.agent.interface import CallbackTarget, PodMeta
from koordpy.agent.interface.hook import PodRequest, Response
from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.testing.cluster import cluster
from koordpy.testing.node import PluginOnNode, set_up
from koordpy_plugins.hooks.tcnetworkqos import netfilter, traffic
from koordpy_plugins.hooks.tcnetworkqos.bandwidth import ClassBandwidth, NodeBandwidth
from koordpy_plugins.hooks.tcnetworkqos.plan import (
    BE,
    DEFAULT_MINOR,
    LS,
    QDISC,
    ROOT,
    SYSTEM,
    Plan,
    TrafficClass,
    plan,
)
from koordpy_plugins.hooks.tcnetworkqos.plugin import TCNetworkQoS
from tests.eventually import PATIENCE

_CLONE_NEWNET = 0x4000_0000
NODE, POD, GATEWAY = "10.11.0.1", "10.11.0.5", "10.11.0.2"
FORTY_GBIT = 5 * 10**9
OWN = QDISC | 0x20


def in_namespace(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run a coroutine in a thread with a network namespace of its own; skip where there is none."""
    outcome: list[Any] = []

    def run():
        try:
            if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
                outcome.append(runner.run(made(work)))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    [found] = outcome
    if isinstance(found, OSError) and not isinstance(found, NetlinkError):
        pytest.skip(f"no network namespace can be made here: {found}")
    if isinstance(found, BaseException):
        raise found
    return found


async def made(work: Callable[[], Awaitable[Any]]) -> Any:
    """Make an interface with a default route and an address for a pod, then work."""
    async with AsyncIPRoute() as ip:
        await ip.link("add", ifname="uplink", kind="veth", peer={"ifname": "peer"})
        uplink, peer = [(await ip.link_lookup(ifname=name))[0] for name in ("uplink", "peer")]
        for index in (uplink, peer):
            await ip.link("set", index=index, state="up")
        for address in (NODE, POD):
            await ip.addr("add", index=uplink, address=address, prefixlen=24)
        await ip.neigh("add", ifindex=uplink, dst=GATEWAY, lladdr="02:00:00:00:00:01", state=0x80)
        await ip.route("add", dst="default", gateway=GATEWAY, oif=uplink)
        try:
            await ip.tc("add", "htb", peer, QDISC, default=1)
            await netfilter.remove()
        except NetlinkError as error:
            pytest.skip(f"the kernel has no HTB or no nf_tables: {error}")
    return await work()


async def uplink() -> int:
    async with AsyncIPRoute() as ip:
        [index] = await ip.link_lookup(ifname="uplink")
        return int(index)


async def classes() -> dict[int, TrafficClass]:
    async with AsyncIPRoute() as ip:
        return await traffic._classes(ip, await uplink())


async def sent() -> dict[int, int]:
    """Return the packets that every class has sent."""
    async with AsyncIPRoute() as ip:
        found = [each async for each in await ip.get_classes(await uplink())]
        return {each["handle"]: each.get_attr("TCA_STATS")["packets"] for each in found}


async def root_qdiscs() -> list[str]:
    async with AsyncIPRoute() as ip:
        found = [qdisc async for qdisc in await ip.get_qdiscs(await uplink())]
        return [qdisc.get_attr("TCA_KIND") for qdisc in found if qdisc["parent"] == 0xFFFF_FFFF]


def send(source: str, packets: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((source, 0))
        for _ in range(packets):
            sender.sendto(b"x", (GATEWAY, 9))


def a_plan(addresses: dict[str, int] | None = None, *, own: int = 0) -> Plan:
    node = NodeBandwidth(8 * FORTY_GBIT, ClassBandwidth(4 * FORTY_GBIT), ClassBandwidth(0, 8 * 10**8))
    found = plan(node, [])
    limits = {OWN: TrafficClass(ROOT, own, own, 3)} if own else {}
    return Plan({**found.classes, **limits}, addresses or {})


def test_classes_are_made_changed_and_dropped():
    async def work():
        assert await traffic.apply(a_plan(own=1_000_000))
        assert await classes() == a_plan(own=1_000_000).classes
        assert not await traffic.apply(a_plan(own=1_000_000))
        assert await traffic.apply(a_plan(own=2_000_000))
        assert (await classes())[OWN].ceil == 2_000_000
        assert await traffic.apply(a_plan())
        assert await classes() == a_plan().classes

    in_namespace(work)


def test_packets_go_to_the_class_of_their_source_and_others_to_system():
    async def work():
        await traffic.apply(a_plan({POD: BE}))
        before = await sent()
        send(POD, 3)
        send(NODE, 2)
        after = await sent()
        assert [after[handle] - before[handle] for handle in (LS, BE)] == [0, 3]
        assert after[SYSTEM] - before[SYSTEM] >= 2  # and what the kernel itself sends
        await traffic.apply(a_plan({POD: OWN}, own=1_000_000))
        send(POD, 4)
        assert (await sent())[OWN] == 4

    in_namespace(work)


def test_what_others_removed_is_made_again():
    async def work():
        wanted = a_plan({POD: BE})
        await traffic.apply(wanted)
        async with AsyncIPRoute() as ip:
            await ip.tc("del", "htb", await uplink(), QDISC, root=True)
        assert await traffic.apply(wanted)
        assert await classes() == wanted.classes
        await netfilter.remove()
        assert await traffic.apply(wanted)
        before = (await sent())[BE]
        send(POD, 1)
        assert (await sent())[BE] == before + 1

    in_namespace(work)


def test_everything_is_removed_even_by_another_process():
    async def work():
        before = await root_qdiscs()
        await traffic.apply(a_plan({POD: BE}))
        assert await root_qdiscs() == ["htb"]
        assert await traffic.remove()
        assert await root_qdiscs() == before
        assert await netfilter.current() is None
        assert not await traffic.remove()

    in_namespace(work)


def test_traffic_control_of_somebody_else_is_left_alone():
    async def work():
        async with AsyncIPRoute() as ip:
            await ip.tc("add", "htb", await uplink(), 0x8000_0000, default=DEFAULT_MINOR)
        with pytest.raises(traffic.TrafficError, match="has a root qdisc htb of somebody else"):
            await traffic.apply(a_plan())
        assert not await traffic.remove()
        assert await root_qdiscs() == ["htb"]

    in_namespace(work)


def test_a_node_without_a_default_route_is_an_error():
    async def work():
        async with AsyncIPRoute() as ip:
            await ip.route("del", dst="default", gateway=GATEWAY, oif=await uplink())
        with pytest.raises(traffic.TrafficError, match="no default route"):
            await traffic.apply(a_plan())

    in_namespace(work)


def test_more_addresses_than_fit_into_one_message():
    async def work():
        many = {f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}": BE for number in range(1, 1500)}
        await traffic.apply(a_plan({**many, "fd00::1": LS, POD: BE}))
        send(POD, 1)
        assert (await sent())[BE] == 1

    in_namespace(work)


# --- the hook ------------------------------------------------------------------------------------


def node_slo(**policies: str) -> NodeSLOSpec:
    document = {
        "systemStrategy": {"totalNetworkBandwidth": "1G"},
        "resourceQOSStrategy": {"policies": policies},
    }
    return decode(NodeSLOSpec, document)


def best_effort_pod() -> PodMeta:
    document = {
        "metadata": {
            "name": "p",
            "namespace": "d",
            "uid": "p",
            "labels": {"koordinator.sh/qosClass": "BE"},
        },
        "spec": {"containers": [{"name": "c"}]},
        "status": {"phase": "Running", "podIP": POD},
    }
    return PodMeta(decode(Pod, document), "kubepods/besteffort/podp")


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():
            await asyncio.sleep(0.05)


async def is_shaped() -> bool:
    return await root_qdiscs() == ["htb"] and await netfilter.current() is not None


async def is_untouched() -> bool:
    return await root_qdiscs() != ["htb"] and await netfilter.current() is None


async def running_hook(folder: Path) -> PluginOnNode[TCNetworkQoS]:
    on = set_up(TCNetworkQoS, cluster(), "n", folder / "cgroup", gates={"TCNetworkQoS": True})
    assert on.plugin.refusal() is None
    assert on.plugin.read_slo(node_slo())
    on.plugin.update(CallbackTarget([best_effort_pod()], []))
    await until(is_shaped)
    return on


def class_id(hook: TCNetworkQoS) -> int | str | None:
    response = Response()
    hook.set_class_id(PodRequest("d", "p", "p", {}, {}, "kubepods/besteffort/podp"), response)
    return response.values.get("net_cls.classid")


def test_the_policy_of_the_node_slo_brings_it_about_and_removes_it(tmp_path):
    async def work():
        hook = (await running_hook(tmp_path)).plugin
        send(POD, 2)
        assert (await sent())[BE] == 2
        assert class_id(hook) == BE
        assert hook.read_slo(node_slo(netQOSPolicy="terway-qos"))
        hook.update(CallbackTarget([best_effort_pod()], []))
        await until(is_untouched)
        assert class_id(hook) == 0
        hook.stop()

    in_namespace(work)


def test_stopping_removes_everything(tmp_path):
    async def work():
        (await running_hook(tmp_path)).plugin.stop()
        assert await is_untouched()

    in_namespace(work)


def test_what_a_killed_agent_left_is_removed_where_another_policy_holds(tmp_path):
    async def work():
        await traffic.apply(a_plan({POD: BE}))
        on = set_up(TCNetworkQoS, cluster(), "n", tmp_path / "cgroup", gates={"TCNetworkQoS": True})
        assert on.plugin.read_slo(node_slo(netQOSPolicy="terway-qos"))
        on.plugin.update(CallbackTarget([], []))
        await until(is_untouched)
        on.plugin.stop()

    in_namespace(work)


def test_what_is_undone_is_removed_until_it_is_enabled_again(tmp_path):
    async def work():
        on = await running_hook(tmp_path)
        assert isinstance(on.handle.executor, Executor)
        pauses = on.handle.executor.changes.pauses
        pauses.add(Pause(Scope.ALL))
        await until(is_untouched)
        pauses.remove(Scope.ALL)
        await until(is_shaped)
        on.plugin.stop()

    in_namespace(work)


def test_a_refusal_of_the_kernel_is_logged_once_and_tried_again(tmp_path, caplog):
    async def work():
        async with AsyncIPRoute() as ip:
            await ip.route("del", dst="default", gateway=GATEWAY, oif=await uplink())
        on = set_up(TCNetworkQoS, cluster(), "n", tmp_path / "cgroup", gates={"TCNetworkQoS": True})
        on.plugin.read_slo(node_slo())
        for pods in ([], [best_effort_pod()]):
            on.plugin.update(CallbackTarget(pods, []))
            await until(is_logged)
        async with AsyncIPRoute() as ip:
            await ip.route("add", dst="default", gateway=GATEWAY, oif=await uplink())
        on.plugin.update(CallbackTarget([], []))
        await until(is_shaped)
        on.plugin.stop()

    async def is_logged() -> bool:
        return "the node's traffic is not shaped: the node has no default route" in caplog.text

    in_namespace(work)
    assert caplog.text.count("is not shaped") == 1
