"""What a service says and does before it has seen the cluster, and while it stops."""

import asyncio
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
import yaml

from koordpy import data
from koordpy.api.core import Pod
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.http.server import listener as listening
from koordpy.lib import certificates
from koordpy.scheduling.interface import Permit, Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles import registry
from tests.eventually import PATIENCE
from tests.integration.service.stage import (
    CRDS,
    Stage,
    binding,
    pod_document,
    review_of,
    service_settings,
    serving,
    until,
)
from tests.processes import serve_process

HOT = ("filter", "prioritize", "preempt", "bind")


class Gate:
    """Holds back the lists of some resources until it is opened."""

    def __init__(self, *plurals: str) -> None:
        self._plurals = plurals
        self.is_open = False

    def __call__(self, method: str, path: str) -> Fault | None:
        shut = not self.is_open and path.rsplit("/", 1)[-1] in self._plurals
        return Fault(status=503) if shut and method == "GET" else None


async def test_no_request_is_decided_until_every_informer_has_listed(tmp_path: Path) -> None:
    server, gate = ApiServer(crds=CRDS), Gate("pods")
    server.faults = gate
    async with serving(tmp_path, server=server, ready=False) as stage:
        await until(lambda: _synced(stage, "Node") and _synced(stage, "ClusterColocationProfile"))
        for verb in HOT:
            answer = await stage.call(verb, b"{}")
            assert (answer.status_code, answer.text) == (
                503,
                "not ready: the cluster has not been listed yet, see /readyz\n",
            )
        assert (await stage.review(review_of(pod_document("p")))).status_code == 503
        answer = await stage.get("/readyz")
        assert answer.status_code == 503
        lines = answer.text.splitlines()
        assert "[+]informer-Node ok" in lines
        [failed] = [line for line in lines if line.startswith("[-]")]
        assert failed.startswith("[-]informer-Pod failed: ")
        assert failed.endswith("; 1 more check waits for this: informers")
        assert (await stage.get("/readyz/informers")).text.startswith(
            "[-]informers failed: not all informers have listed yet"
        )
        assert (await stage.get("/livez")).status_code == 200
        with pytest.raises(TimeoutError, match="Pod is"):
            await stage.process.wait_ready(0.05)
        gate.is_open = True
        await stage.process.wait_ready(PATIENCE)
        assert (await stage.get("/readyz")).status_code == 200
        assert (await stage.call("filter", b"{}")).status_code == 400
        assert (await stage.review(review_of(pod_document("p")))).status_code == 200


def _synced(stage: Stage, kind: str) -> bool:
    return any(store.type.__name__ == kind and store.synced for store in stage.process.cluster.stores)


async def test_a_missing_crd_is_named_and_its_later_installation_is_noticed(tmp_path: Path) -> None:
    crds = sorted(data.deploy("crds").glob("*.yaml"))
    [metrics] = [crd for crd in crds if "nodemetrics" in crd.name]
    server = ApiServer(crds=[crd for crd in crds if crd != metrics])
    async with serving(tmp_path, server=server, ready=False) as stage:
        missing = (
            "informer-NodeMetric failed: the API server does not serve nodemetrics of "
            "slo.koordinator.sh/v1alpha1: CRD not installed (nodemetrics.slo.koordinator.sh)"
        )
        async with asyncio.timeout(PATIENCE):  # whenever it asks again it says that it is listing
            while missing not in (answer := await stage.get("/readyz/informer-NodeMetric")).text:
                await asyncio.sleep(0.01)
        assert answer.status_code == 503
        assert (await stage.call("filter", b"{}")).status_code == 503
        document = yaml.safe_load(metrics.read_text())
        async with httpx.AsyncClient(trust_env=False) as client:
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            assert (await client.post(stage.server.url + path, json=document)).status_code == 201
        await stage.process.wait_ready(PATIENCE)
        assert (await stage.get("/readyz")).status_code == 200
    await server.stop()


async def test_what_was_seen_once_is_served_while_the_api_server_is_away(tmp_path: Path) -> None:
    async with serving(tmp_path) as stage:
        await stage.add_node("n0")
        pod = await stage.add_pod("p")
        await stage.server.stop()
        assert (await stage.filter(pod, "n0"))["NodeNames"] == ["n0"]
        assert (await stage.review(review_of(pod_document("q")))).json()["response"]["allowed"] is True
        assert (await stage.get("/readyz")).status_code == 200
        await stage.server.start()


# --- stopping --------------------------------------------------------------------------------------


class Holds(Plugin, Permit):
    """Lets every pod wait."""

    name = "Holds"
    waits: ClassVar[float] = 600.0

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return Status.wait(self.waits) if self.waits else SUCCESS


@pytest.fixture
def holding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scheduler configuration in which Permit holds every bind."""
    known = registry.installed().including(Holds)
    monkeypatch.setattr(registry, "installed", lambda: known)
    file = tmp_path / "scheduler.yaml"
    plugins = {"permit": {"enabled": [{"name": "Holds"}]}}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
    }
    file.write_text(yaml.safe_dump(document))
    return file


async def test_a_stop_answers_held_binds_instead_of_waiting_for_them(tmp_path: Path, holding: Path) -> None:
    async with serving(tmp_path, extender={"schedulerConfig": str(holding)}) as stage:
        await stage.add_node("n0")
        pods = [await stage.add_pod(f"p{i}") for i in range(3)]
        binds = [asyncio.create_task(stage.call("bind", binding(pod, "n0"))) for pod in pods]
        extender = stage.extender
        await until(lambda: len(extender.handle.waiting_pods) == 3)
        await stage.process.stop()
        answers = [await bind for bind in binds]
        assert [(a.status_code, a.json()) for a in answers] == [
            (200, {"Error": "koordpy is shutting down"})
        ] * 3
        stage.assert_nothing_is_left_over()


async def test_a_stop_lets_a_bind_that_is_being_written_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as stage:
        await stage.add_node("n0")
        pod = await stage.add_pod("p")
        written = asyncio.Event()

        def slowly(method: str, path: str) -> Fault | None:
            if path.endswith("/binding"):
                written.set()
                return Fault(delay=0.5)
            return None

        stage.server.faults = slowly
        bind = asyncio.create_task(stage.call("bind", binding(pod, "n0")))
        await written.wait()
        await stage.process.stop()
        assert (await bind).json() == {"Error": ""}
        assert (await stage.client.get(Pod, "default", "p")).spec.node_name == "n0"


async def test_a_stopped_service_listens_nowhere(tmp_path: Path) -> None:
    async with serving(tmp_path) as stage:
        urls = [listener.url for listener in stage.process.listeners.values()]
        await stage.process.stop()
        for url in urls:
            with pytest.raises(httpx.ConnectError):
                await stage.http.get(f"{url}/livez")


# --- certificates ----------------------------------------------------------------------------------


async def test_a_replaced_certificate_is_served_and_open_connections_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = listening.Listener.__init__

    def often(self: Any, *args: Any, **options: Any) -> None:
        start(self, *args, **options, reload_seconds=0.02)

    monkeypatch.setattr(listening.Listener, "__init__", often)
    async with serving(tmp_path, parts=["admission"]) as stage:
        path = f"{stage.url('admission')}/livez"
        async with httpx.AsyncClient(verify=stage.trust(), trust_env=False) as old:
            assert (await old.get(path)).text == "ok"
            certs = tmp_path / "certs"
            for file in certs.iterdir():
                file.unlink()
            new = certificates.ensure(certs, ["127.0.0.1"], datetime.now(UTC))
            assert await _trusted(path, new)
            assert (await old.get(path)).text == "ok"  # on the connection that it has


async def _trusted(url: str, ca: bytes) -> bool:
    context = ssl.create_default_context(cadata=ca.decode())
    async with asyncio.timeout(PATIENCE):
        while True:
            async with httpx.AsyncClient(verify=context, trust_env=False) as client:
                try:
                    return (await client.get(url)).text == "ok"
                except httpx.ConnectError:
                    await asyncio.sleep(0.05)


async def test_half_a_pair_does_not_replace_the_certificate(tmp_path: Path) -> None:
    certs = tmp_path / "certs"
    async with serving(tmp_path, parts=["admission"]) as stage:
        url = f"{stage.url('admission')}/livez"
        trust = stage.trust()
        certificates.ensure(tmp_path / "other", ["127.0.0.1"], datetime.now(UTC))
        (certs / certificates.SERVER_CERT).write_bytes(
            (tmp_path / "other" / certificates.SERVER_CERT).read_bytes()
        )
        async with httpx.AsyncClient(verify=trust, trust_env=False) as client:
            assert (await client.get(url)).text == "ok"


async def test_a_service_can_be_stopped_that_never_started(tmp_path: Path) -> None:
    service = serve_process(service_settings("http://127.0.0.1:1", tmp_path))
    ports = [listener.port for listener in service.listeners.values()]
    await service.stop()
    again = serve_process(service_settings("http://127.0.0.1:1", tmp_path, extender={"port": ports[1]}))
    assert again.listeners["extender"].port == ports[1]
    await again.stop()


async def test_an_api_server_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    async with serving(tmp_path, ready=False, client={"server": "http://127.0.0.1:1"}) as stage:
        refused = "http://127.0.0.1:1: [Errno 111] Connect"

        def is_known() -> bool:
            return all(refused in found.error for found in stage.process.informers.health)

        await until(is_known)
        failed = [line for line in (await stage.get("/readyz")).text.splitlines() if line.startswith("[-]")]
        [line] = [line for line in failed if refused in line]
        assert line.startswith("[-]informer-")
        for check in ("informers", "informer-Node", "informer-NodeMetric"):
            assert check in line
