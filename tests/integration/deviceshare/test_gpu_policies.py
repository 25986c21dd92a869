"""Policies of a third-party package, on a cluster whose GPUs DeviceShare allocates.

Pods land on the nodes and GPUs on which the experiment of `koordpy simulate` places the same pods: its own
account of GPUs is followed step by step. Of equally good nodes the cluster may take any.
"""

import random
import re
import tomllib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from koordpy_fgd.fgd import FGD
from koordpy_fgd.policies import BestFit, GpuClustering, GpuPacking

from koordpy.api import device_allocations
from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.scheme import resource_of
from koordpy.scheduling.interface import Plugin
from koordpy.scheduling.interface.gpus import GPURequest
from koordpy.scheduling.profiles.registry import installed
from koordpy.scheduling.toolkit.gpu_fragments import TypicalPods
from koordpy.simulation.gpus import workload
from koordpy.simulation.gpus.experiment import Experiment
from koordpy.simulation.gpus.workload import Request
from tests.eventually import becomes_true
from tests.integration.service.scheduling import scheduling
from tests.integration.service.stage import Document, Stage, serving, until

PACKAGE = Path(__file__).parents[3] / "examples" / "koordpy-plugin-fgd"
README = PACKAGE / "README.md"
MODEL = "node.koordinator.sh/gpu-model"
PODS = 60
NODES = [
    workload.Node("a", 32000, 65536, 2, "P100"),
    workload.Node("b", 64000, 131072, 4, "T4"),
    workload.Node("c", 64000, 131072, 4, "T4"),
    workload.Node("d", 96000, 262144, 8, "V100M32"),
    workload.Node("e", 48000, 131072, 8, "G2"),
    workload.Node("f", 16000, 65536, 1, "G2"),
]
TIGHTEST: Document = {
    "scoringStrategy": {
        "type": "MostAllocated",
        "resources": [{"name": "koordinator.sh/gpu-memory-ratio", "weight": 1}],
    }
}
"""The arguments with which DeviceShare chooses the GPU with the least left, as the experiment does."""


def trace(seed: int = 7) -> list[Request]:
    """Pods without GPUs, with a part of one, and with whole ones; some for some models only."""
    rng = random.Random(seed)
    found = []
    for _ in range(PODS):
        cpu, memory = rng.choice((500, 1000, 2000, 6000)), rng.choice((512, 2048, 8192))
        kind = rng.random()
        models = frozenset(rng.choice(((), (), (), ("T4",), ("T4", "G2"), ("V100M32",))))
        if kind < 0.1:
            gpu = GPURequest(cpu)
        elif kind < 0.75:
            gpu = GPURequest(cpu, 1, 10 * rng.choice((10, 20, 25, 33, 46, 50, 62, 80)), models)
        else:
            gpu = GPURequest(cpu, rng.choice((1, 1, 2, 4)), 1000, models)
        found.append(Request(gpu, memory))
    return found


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lay out the package's entry points as pip would; its modules can be imported already."""
    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    info = tmp_path / "site" / "koordpy_plugin_fgd-1.0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0.0\n")
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join([*lines, ""]))
    monkeypatch.syspath_prepend(tmp_path / "site")
    installed.cache_clear()
    yield
    installed.cache_clear()


def profile(policy: str, args: Document, devices: Document) -> Document:
    """As in the package's README: DeviceShare allocates, the policy alone scores."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {
                    "multiPoint": {"enabled": [{"name": "DeviceShare"}]},
                    "score": {"enabled": [{"name": policy}], "disabled": [{"name": "*"}]},
                },
                "pluginConfig": [
                    {"name": "DeviceShare", "args": devices},
                    {"name": policy, "args": args},
                ],
            }
        ],
    }


@asynccontextmanager
async def running(folder: Path, document: Document) -> AsyncIterator[Stage]:
    """koordpy, which chooses the nodes, and a scheduler that calls it, on a cluster with GPUs."""
    written = folder / "profiles.yaml"
    written.write_text(yaml.safe_dump(document))
    extender = {"schedulerConfig": str(written), "leaderElect": False, "nodeChoice": "koordpy"}
    async with serving(folder, parts=["extender", "debug"], extender=extender) as stage:
        for node in NODES:
            await add(stage, node)
        calls: Document = {"urlPrefix": f"{stage.url('extender')}/extender", "nodeCacheCapable": True}
        kube_scheduler = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"schedulerName": "default-scheduler"}],
            "extenders": [
                {**calls, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1},
                {**calls, "bindVerb": "bind"},
            ],
        }
        async with scheduling(stage, kube_scheduler):
            yield stage


async def add(stage: Stage, node: workload.Node) -> None:
    """Create a node and its Device."""
    percent = str(100 * node.gpus)
    capacity = {
        "cpu": f"{node.cpu}m",
        "memory": f"{node.memory}Mi",
        "pods": "500",
        "koordinator.sh/gpu-core": percent,
        "koordinator.sh/gpu-memory-ratio": percent,
    }
    gpu = {
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory-ratio": "100",
        "koordinator.sh/gpu-memory": "16Gi",
    }
    listed = [
        {"type": "gpu", "minor": minor, "id": f"GPU-{node.name}-{minor}", "health": True, "resources": gpu}
        for minor in range(node.gpus)
    ]
    resource = resource_of(Device)
    device = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {"name": node.name}}
    await stage.client.create_raw(resource, "", {**device, "spec": {"devices": listed}})
    ready = {"type": "Ready", "status": "True", "reason": "Test", "message": ""}
    document = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node.name, "labels": {MODEL: node.model}},
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": [ready]},
    }
    await stage.client.create_raw(resource_of(Node), "", document)
    nodes, devices = stage.process.cluster.store(Node), stage.process.cluster.store(Device)
    await until(lambda: node.name in nodes and node.name in devices)


async def place(stage: Stage, name: str, request: Request) -> Pod:
    """Create a pod, and return it once it is bound and koordpy has seen that."""
    gpu = request.gpu
    amounts = {"cpu": f"{gpu.cpu}m", "memory": f"{request.memory}Mi"}
    if gpu.count:
        percent = str(gpu.total // 10)
        amounts |= {"koordinator.sh/gpu-core": percent, "koordinator.sh/gpu-memory-ratio": percent}
    spec: dict[str, Any] = {
        "containers": [
            {"name": "main", "image": "app:1", "resources": {"requests": amounts, "limits": amounts}}
        ]
    }
    if gpu.models:
        of_model = {"key": MODEL, "operator": "In", "values": sorted(gpu.models)}
        term = {"nodeSelectorTerms": [{"matchExpressions": [of_model]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    await stage.client.create_raw(resource_of(Pod), "default", document)
    pods = stage.process.cluster.store(Pod)

    def bound() -> Pod | None:
        known = pods.get("default", name)
        return known if known is not None and known.spec.node_name else None

    await until(lambda: bound() is not None)
    found = bound()
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("policy", "devices"),
    [(FGD, {}), (BestFit, TIGHTEST), (GpuPacking, TIGHTEST), (GpuClustering, TIGHTEST)],
    ids=lambda each: getattr(each, "name", ""),
)
async def test_pods_land_where_the_experiment_places_them(
    tmp_path: Path, policy: type[Plugin], devices: Document
) -> None:
    pods = trace()
    typical = TypicalPods.of(pod.gpu for pod in pods)
    told = [
        {"cpu": of.cpu, "count": of.count, "milli": of.milli, "models": sorted(of.models), "pods": count}
        for of, count in typical.frequencies
    ]
    args: Document = {"typicalPods": told} if policy is FGD else {}
    experiment = Experiment(NODES, policy, args)
    names = [node.name for node in NODES]
    shared = full = choices = 0
    async with running(tmp_path, profile(policy.name, args, devices)) as stage:
        for number, request in enumerate(pods):
            state, best = experiment.candidates(request, typical)
            if not len(best):
                full += 1
                continue
            choices += len(best) < len(experiment.fleet.fits(request))
            pod = await place(stage, f"p{number}", request)
            row = names.index(pod.spec.node_name)
            assert row in best.tolist(), (number, request, [names[each] for each in best.tolist()])
            gpu = experiment.gpu(state, request, row)
            given = device_allocations.of(pod.metadata.annotations).get("gpu", ())
            if gpu is not None:
                assert [each.minor for each in given] == [gpu], (number, request)
                shared += 1
            assert len(given) == request.gpu.count
            experiment.fleet.place(request, row, gpu)
    assert shared > 20
    assert choices > 20
    assert full < 20


async def test_with_the_profile_of_the_readme_the_policy_chooses_the_gpu(tmp_path: Path) -> None:
    [document, *_] = re.findall(r"^```yaml\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    async with running(tmp_path, yaml.safe_load(document)) as stage:
        pod = await place(stage, "p", Request(GPURequest(1000, 1, 300), 512))
        [allocated] = device_allocations.of(pod.metadata.annotations)["gpu"]

        async def is_told() -> bool:
            [attempt] = (await stage.get("/apis/v1/decisions/default/p")).json()
            told: list[str] = attempt["remarks"]
            return told == [f"FGD chose GPU {allocated.minor}"]

        await becomes_true(is_told)
