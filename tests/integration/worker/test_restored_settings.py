"""Settings that the node agent restores: NodeSLO comes in over HTTP, files of a made-up node change."""

from functools import partial
from pathlib import Path

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeSLO
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.compose.process import Process
from koordpy.embedded.apiserver import ApiServer
from tests.integration.service.stage import until
from tests.integration.worker.stage import NodeFiles, agent_settings, create, working
from tests.processes import worker_process

GIB = 1 << 30
MEMORY = {"memory.min": "0\n", "memory.low": "0\n", "memory.high": "max\n", "memory.oom.group": "0\n"}


class Files(NodeFiles):
    """With the files of memory QoS, kernel settings, and resctrl on processors that can allocate."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, 2)
        self.folder("kubepods.slice/kubepods-burstable.slice")
        for directory in ("kubepods.slice", "kubepods.slice/kubepods-besteffort.slice"):
            self.folder(directory)
        self.watermark = self.proc / "sys/vm/watermark_scale_factor"
        self.watermark.parent.mkdir(parents=True)
        self.watermark.write_text("10\n")
        (self.proc / "cpuinfo").write_text("vendor_id\t: GenuineIntel\nflags\t\t: cat_l3 mba\n")
        self.resctrl = self.sys / "fs" / "resctrl"
        (self.resctrl / "info" / "L3").mkdir(parents=True)
        (self.resctrl / "info" / "L3" / "cbm_mask").write_text("3ff\n")
        for group in ("", "LSR", "LS", "BE"):
            (self.resctrl / group).mkdir(exist_ok=True)
            (self.resctrl / group / "schemata").write_text("L3:0=3ff\nMB:0=100\n")
            (self.resctrl / group / "tasks").write_text("")

    def folder(self, directory: str) -> Path:
        folder = self.cgroup / directory
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in MEMORY.items():
            (folder / name).write_text(text)
        return folder


def node_agent(server: ApiServer, files: Files, **gates: bool) -> Process:
    settings = agent_settings(server.url, nodeName="n1", **files.settings)
    return worker_process(settings.model_copy(update={"feature_gates": gates}), "agent")


async def fill(client: Client) -> str:
    """Create a node with a pod that requests 2 GiB; return the pod's directory."""
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    status = {"capacity": capacity, "allocatable": capacity}
    await create(client, resource_of(Node), {"metadata": {"name": "n1"}}, status)
    resources = {"requests": {"memory": "2Gi"}}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i", "resources": resources}]}
    await create(client, resource_of(Pod), {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
    uid = (await client.get(Pod, "default", "p")).metadata.uid.replace("-", "_")
    return f"kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{uid}.slice"


def has(file: Path, number: int) -> bool:
    return file.read_text().strip() == str(number)


async def test_memory_cache_and_kernel_settings_follow_the_node_slo(
    tmp_path: Path, server: ApiServer, client: Client
) -> None:
    files = Files(tmp_path)
    pod = files.folder(await fill(client))
    strategy = {
        "lsClass": {"memoryQOS": {"enable": True, "minLimitPercent": 50}},
        "beClass": {"resctrlQOS": {"enable": True, "mbaPercent": 42}},
    }
    spec = {"resourceQOSStrategy": strategy, "systemStrategy": {"watermarkScaleFactor": 200}}
    await create(client, resource_of(NodeSLO), {"metadata": {"name": "n1"}, "spec": spec})
    async with working(node_agent(server, files, CgroupReconcile=True, SystemConfig=True)):
        for folder in (files.cgroup / "kubepods.slice", pod):
            await until(partial(has, folder / "memory.min", GIB))
        await until(lambda: files.watermark.read_text().strip() == "200")
        await until(lambda: "MB:0=50" in (files.resctrl / "BE" / "schemata").read_text())

        strategy["lsClass"]["memoryQOS"] = {"enable": True, "minLimitPercent": 100}
        await client.patch(NodeSLO, "", "n1", {"spec": {"resourceQOSStrategy": strategy}})
        await until(partial(has, pod / "memory.min", 2 * GIB))


async def test_what_is_off_by_default_is_not_written(
    tmp_path: Path, server: ApiServer, client: Client
) -> None:
    files = Files(tmp_path)
    pod = files.folder(await fill(client))
    strategy = {
        "lsClass": {"memoryQOS": {"enable": True, "minLimitPercent": 50}},
        "beClass": {"resctrlQOS": {"enable": True, "mbaPercent": 42}},
    }
    spec = {"resourceQOSStrategy": strategy, "systemStrategy": {"watermarkScaleFactor": 200}}
    await create(client, resource_of(NodeSLO), {"metadata": {"name": "n1"}, "spec": spec})
    async with working(node_agent(server, files)):
        await until(lambda: "MB:0=50" in (files.resctrl / "BE" / "schemata").read_text())
    assert (pod / "memory.min").read_text() == "0\n"
    assert files.watermark.read_text() == "10\n"
