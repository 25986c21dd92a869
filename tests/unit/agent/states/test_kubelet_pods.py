"""Pods as kubelet knows them: a server on loopback answers in its place."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from koordpy.agent.engine.pod_source import is_kubelet, is_pod_directory
from koordpy.agent.interface import CgroupLayout, FlagError, FlagSet, StateType
from koordpy.agent.states.informer import StatesInformer
from koordpy.agent.states.kubelet import MAX_ANSWER, Kubelet, KubeletError, address
from koordpy.agent.states.kubelet_pods import KubeletPods
from koordpy.agent.states.pod_lifecycle import PodDirectories
from koordpy.api.core import Node
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from tests.eventually import PATIENCE

NODE = {"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}}


def pods(*uids: str) -> bytes:
    items = [{"metadata": {"name": uid, "namespace": "d", "uid": uid}, "spec": {}} for uid in uids]
    return msgspec.json.encode({"kind": "PodList", "items": items})


class NodeOnly:
    """The one request to the API server that is needed."""

    async def get_raw(self, *_: object) -> dict[str, Any]:
        return NODE


class Stage:
    def __init__(self, directories=()):
        self.flags = FlagSet()
        KubeletPods.init_flags(self.flags)
        self.flags.set("kubelet-insecure-tls", True)
        self.clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.cluster = Cluster(self.clock)
        self.states = StatesInformer(self.cluster, "n1", CgroupLayout(systemd=True), pods_from_kubelet=True)
        self.directories = PodDirectories(list(directories), is_pod_directory)
        self.status, self.body, self.asked = 200, pods(), 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            self.asked += 1
            head = f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(self.body)}\r\n\r\n".encode()
            writer.write(head + self.body)
        writer.close()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.answer, "127.0.0.1", 0)
        port = self.server.sockets[0].getsockname()[1]
        self.flags.set("kubelet-read-only-port", port)
        api: Any = NodeOnly()
        self.kubelet = Kubelet(api, "n1", self.flags, self.clock.monotonic)
        self.service = KubeletPods(self.kubelet, self.states, self.directories, self.flags, self.clock)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.kubelet._connection is not None:
            await self.kubelet._connection.close()
        self.server.close()

    @property
    def uids(self):
        return sorted(meta.pod.metadata.uid for meta in self.states.pods())


async def until(condition):
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


async def test_pods_are_those_of_kubelet_and_callbacks_run():
    async with Stage() as stage:
        seen = []
        stage.states.register_callbacks(
            StateType.ALL_PODS, "t", "test", lambda _, pods, target: seen.append(len(target.pods))
        )
        assert not stage.states.pods_known
        assert stage.service.not_ready() == "kubelet has not been asked yet"
        stage.body = pods("a", "b")
        await stage.service.sync()
        assert stage.uids == ["a", "b"]
        assert stage.states.pods()[0].cgroup_dir == "kubepods.slice/kubepods-besteffort.slice/" + (
            "kubepods-besteffort-poda.slice"
        )
        assert stage.service.not_ready() is None
        running = asyncio.create_task(stage.states.run())
        await until(lambda: seen)
        running.cancel()
        assert seen == [2]


@pytest.mark.parametrize(("status", "body"), [(500, b""), (200, pods()), (200, b"not JSON"), (401, b"no")])
async def test_an_error_or_an_empty_answer_keeps_what_is_known(status, body):
    async with Stage() as stage:
        stage.body = pods("a")
        await stage.service.sync()
        stage.status, stage.body = status, body
        await stage.service.sync()
        assert stage.uids == ["a"]
        assert stage.service.not_ready() is None


async def test_an_answer_that_is_too_large_is_not_read(caplog):
    async with Stage() as stage:
        stage.body = pods("a")
        await stage.service.sync()
        stage.body = b'{"items": [' + b" " * MAX_ANSWER + b"]}"
        await stage.service.sync()
        assert stage.uids == ["a"]
        assert f"more than {MAX_ANSWER}" in caplog.text


async def test_null_is_nothing_and_a_malformed_pod_does_not_hide_the_others(caplog):
    static: dict[str, Any] = {
        "metadata": {"name": "s", "namespace": "kube-system", "uid": "s", "creationTimestamp": None},
        "spec": {"containers": [{"name": "c", "resources": {"limits": None}, "env": None}]},
        "status": {"startTime": None, "containerStatuses": None},
    }
    malformed = {"metadata": {"name": "m", "namespace": "d", "uid": "m"}, "spec": {"containers": "many"}}
    async with Stage() as stage:
        stage.body = msgspec.json.encode({"kind": "PodList", "items": [malformed, static]})
        await stage.service.sync()
        assert stage.uids == ["s"]
        assert "a pod that kubelet has is left out" in caplog.text
        assert "$.spec.containers" in caplog.text
        stage.body = b'{"kind": "PodList", "items": null}'  # kubelet's answer when it has none
        await stage.service.sync()
        assert stage.uids == ["s"]


async def test_nothing_is_known_before_the_first_pods():
    async with Stage() as stage:
        stage.status = 403
        await stage.service.sync()
        assert stage.service.not_ready() == "kubelet's /pods/: it answered 403"
        stage.cluster.store(Node).apply(decode(Node, {"metadata": {"name": "n1"}}))
        for store in stage.cluster.stores:
            store.synced = True
        assert not stage.states.synced
        stage.status, stage.body = 200, pods("a")
        await stage.service.sync()
        assert stage.states.synced


async def test_the_directory_of_a_new_pod_triggers_a_request(tmp_path):
    root = tmp_path / "kubepods.slice"
    burstable = root / "kubepods-burstable.slice"
    root.mkdir()
    async with Stage([root, burstable]) as stage:
        running = asyncio.create_task(stage.service.run())  # the interval is ten seconds of a real clock
        try:
            await until(lambda: stage.asked >= 1)
            burstable.mkdir()  # a QoS directory that comes late, with pods of its own
            await until(lambda: stage.asked >= 2)
            stage.body = pods("a")
            (burstable / "kubepods-burstable-poda.slice").mkdir()
            await until(lambda: stage.uids == ["a"])
            assert sorted(stage.directories.watched.values()) == [str(root), str(burstable)]
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_kubelets_configuration_needs_the_authenticated_port():
    async with Stage() as stage:
        with pytest.raises(KubeletError, match="disable-query-kubelet-config"):
            await stage.kubelet.config()


def test_the_address_is_of_the_preferred_type():
    node = {
        "status": {
            "addresses": [{"type": "InternalIP", "address": "fd00::1"}, {"type": "Hostname", "address": "n"}]
        }
    }
    assert address(node, "Hostname") == "n"
    assert address(node, "Unknown") == "[fd00::1]"
    with pytest.raises(KubeletError, match="no address of type ExternalIP"):
        address(node, "ExternalIP")


def test_only_two_sources_of_pods_exist():
    flags = FlagSet()
    KubeletPods.init_flags(flags)
    assert not is_kubelet(flags)
    flags.set("pod-source", "kubelet")
    assert is_kubelet(flags)
    flags.set("pod-source", "etcd")
    with pytest.raises(FlagError, match="got 'etcd', expected apiserver or kubelet"):
        is_kubelet(flags)
