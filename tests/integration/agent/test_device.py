"""The Device that a running agent reports, on the embedded API server."""

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from koordpy.agent.engine.agent import NodeAgent
from koordpy.agent.engine.plugins import Installed
from koordpy.agent.engine.reloading import Desired
from koordpy.agent.engine.settings import AgentSettings
from koordpy.agent.reporting import device_reporter
from koordpy.api.core import Node
from koordpy.api.device import Device
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.errors import NotFound
from koordpy.cluster.informers import Informers
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.lib.clock import SystemClock
from koordpy.lib.feature_gates import FeatureGateError, FeatureGates
from koordpy_plugins.collectors.gpu.library import Identity, XidEvent
from koordpy_plugins.collectors.gpu.plugin import GPU
from tests.integration.service.stage import CRDS, until
from tests.integration.worker.stage import NodeFiles, create
from tests.unit.plugins.collectors.gpu_library import Driver
from tests.unit.plugins.collectors.pci_devices import PCIDevices

DEVICE = resource_of(Device)
ON = {"Accelerators": True, "RDMADevices": True}
ADDRESS = "0000:3b:00.0"


class Stage:
    """A running agent, and the Device of its node."""

    def __init__(self, agent: NodeAgent, client: Client, sys: Path, infos: Path) -> None:
        self.agent, self.client, self.pci, self.infos = agent, client, PCIDevices(sys), infos

    async def device(self) -> dict[str, Any]:
        return await self.client.get_raw(DEVICE, "", "n1")

    async def devices(self) -> list[dict[str, Any]] | None:
        """Return the reported devices; None without the object."""
        try:
            return (await self.device())["spec"].get("devices", [])
        except NotFound:
            return None

    async def until_ids(self, *expected: str) -> list[dict[str, Any]]:
        async with asyncio.timeout(180):
            while True:
                found = await self.devices()
                if found is not None and [each["id"] for each in found] == list(expected):
                    return found
                await asyncio.sleep(0.02)

    def describe(self, *devices: dict[str, Any]) -> None:
        """Replace the file of a vendor's tool at once, as such tools should."""
        new = self.infos.with_name("new.json")
        new.write_text(json.dumps(devices))
        new.rename(self.infos / "devices.json")


@asynccontextmanager
async def agent_on(folder: Path, gates: dict[str, bool], **kwargs: Any) -> AsyncIterator[Stage]:
    async with ApiServer(crds=CRDS, **kwargs) as server:
        client = Client(Connection.to(Access(server.url)))
        try:
            await create(client, resource_of(Node), {"metadata": {"name": "n1"}})
            files, installed = NodeFiles(folder, 2), Installed.find()
            for name in ("infos", "checkpoints"):
                (folder / name).mkdir()
            flags = {
                "prediction-checkpoint-filepath": str(folder / "checkpoints"),
                "xpu-device-infos-dir": str(folder / "infos"),
                "node-topology-sync-interval": "20ms",
            }
            cluster = Cluster(SystemClock())
            agent = NodeAgent(
                AgentSettings.model_validate({"nodeName": "n1", "flags": flags, **files.settings}),
                installed,
                cluster=cluster,
                gates=FeatureGates(installed.gate_specs(), gates),
                clock=SystemClock(),
                client=client,
                rng=random.Random(1),
            )
            agent.setup()
            stage = Stage(agent, client, files.sys, folder / "infos")
            async with Informers(cluster, client):
                running = asyncio.create_task(agent.run())
                try:
                    yield stage
                finally:
                    running.cancel()
                    await asyncio.gather(running, return_exceptions=True)
        finally:
            await client.close()


@pytest.fixture
def no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GPU, "library", staticmethod(Driver(installed=False).library))


def npu(minor: int) -> dict[str, Any]:
    return {"vendor": "huawei", "model": "Ascend-910B", "uuid": f"npu-{minor}", "minor": str(minor)}


async def test_devices_that_come_and_go(tmp_path: Path, no_driver: None) -> None:
    async with agent_on(tmp_path, ON) as stage:
        await stage.until_ids()
        [owner] = (await stage.device())["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Node", "n1", True)
        stage.pci.add_rdma(stage.pci.add(ADDRESS), "mlx5_0", "4: ACTIVE")
        [card] = await stage.until_ids(ADDRESS)
        assert (card["type"], card["health"], card["resources"]) == (
            "rdma",
            True,
            {"koordinator.sh/rdma": "100"},
        )
        stage.describe(npu(1), npu(0))
        await stage.until_ids("npu-0", "npu-1", ADDRESS)
        assert (await stage.device())["metadata"]["labels"]["node.koordinator.sh/gpu-model"] == "Ascend-910B"
        stage.describe()
        await stage.until_ids(ADDRESS)


async def test_a_gpu_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver({ADDRESS: Identity(0, 0, "GPU-a", "NVIDIA A100-SXM4 80GB", 80 << 30)})
    monkeypatch.setattr(GPU, "library", staticmethod(driver.library))
    PCIDevices(tmp_path / "sys").add_gpu(ADDRESS)
    async with agent_on(tmp_path, {"Accelerators": True}) as stage:
        [gpu] = await stage.until_ids("GPU-a")
        assert gpu["health"] is True
        assert gpu["topology"] == {"socketID": -1, "nodeID": 0, "pcieID": "pci0000:3a", "busID": ADDRESS}
        assert (await stage.device())["metadata"]["labels"] == {
            "node.koordinator.sh/gpu-vendor": "nvidia",
            "node.koordinator.sh/gpu-model": "A100-SXM4-80GB",
            "node.koordinator.sh/gpu-driver-version": "550.54",
        }
        driver.events.append(XidEvent(79, ADDRESS, "GPU-a"))
        async with asyncio.timeout(180):
            while (found := await stage.until_ids("GPU-a"))[0]["health"]:
                await asyncio.sleep(0.02)
        [condition] = found[0]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Healthy", "False", "Xid79")


async def test_writes_that_fail_are_repeated(
    tmp_path: Path, no_driver: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_reporter, "FAILED_SECONDS", 0.01)
    faults = [Fault(status=409, after=True), Fault(status=409), Fault(status=403)]

    def fault(method: str, path: str) -> Fault | None:
        return faults.pop() if faults and method in ("POST", "PUT") and "/devices" in path else None

    async with agent_on(tmp_path, ON, faults=fault) as stage:
        stage.describe(npu(0))
        await stage.until_ids("npu-0")
        assert not faults
        faults.extend([Fault(status=500, after=True), Fault(status=409), Fault(cut=True)])
        stage.describe(npu(0), npu(1))
        await stage.until_ids("npu-0", "npu-1")
        await until(lambda: len(faults) < 2)


async def test_what_others_change_is_put_right(
    tmp_path: Path, no_driver: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_reporter, "RECHECK_SECONDS", 0.01)
    async with agent_on(tmp_path, ON) as stage:
        stage.describe(npu(0))
        await stage.until_ids("npu-0")
        document = await stage.device()
        del document["spec"]["devices"]
        await stage.client.update_raw(DEVICE, "", "n1", document)
        await stage.until_ids("npu-0")
        await stage.client.delete(Device, "", "n1")
        await stage.until_ids("npu-0")


async def test_the_gate_can_be_switched_while_the_agent_runs(tmp_path: Path, no_driver: None) -> None:
    async with agent_on(tmp_path, {}) as stage:
        stage.describe(npu(0))
        await until(lambda: stage.agent.started is not None)
        assert not {"gpu", "rdma", "xpu"} & set(stage.agent.running)
        assert await stage.devices() is None
        flags = stage.agent.flags.values
        off, on = (Desired(flags=flags, gates={"Accelerators": value}) for value in (False, True))
        assert {"gpu", "xpu"} <= set(await stage.agent.apply(off, on))
        await stage.until_ids("npu-0")
        assert {"gpu", "xpu"} <= set(stage.agent.running)
        await stage.agent.apply(on, off)
        assert not {"gpu", "xpu"} & set(stage.agent.running)


async def test_code_of_devices_is_not_loaded_before_it_is_needed(tmp_path: Path) -> None:
    program = (
        "import sys, koordpy.agent.engine.agent as agent\n"
        "from koordpy.agent.engine.plugins import Installed\n"
        "agent.declared_flags(Installed.find())\n"
        "print(*sorted(sys.modules))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    loaded = set((await process.communicate())[0].decode().split())
    assert "koordpy_plugins.collectors.gpu.plugin" in loaded
    assert not loaded & {
        "koordpy.agent.reporting.device_spec",
        "koordpy.agent.toolkit.daemon_thread",
        "koordpy_plugins.collectors.cpi.perf_events",
        "koordpy_plugins.collectors.gpu.nvml",
        "koordpy_plugins.collectors.rdma.network_cards",
        "koordpy_plugins.collectors.xpu.device_infos",
    }


async def test_an_agent_with_a_proxy_of_pod_resources_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(FeatureGateError, match=r"'PodResourcesProxy' cannot be switched on: .* gRPC server"):
        async with agent_on(tmp_path, {"PodResourcesProxy": True}):
            pass
