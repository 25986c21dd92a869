"""What a plugin gets from its handle, over the extender's HTTP, with a scheduler that calls it."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from prometheus_client import REGISTRY

from koordpy.api.core import ConfigMap, Pod
from koordpy.api.meta import KubeObject, ObjectMeta
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.scheduling.interface import (
    Binding,
    ChangeHelps,
    EnqueueExtensions,
    Filter,
    Plugin,
    PostBind,
    PreBind,
    any_change,
)
from koordpy.scheduling.interface.auditor import RecordType
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.pod_queues import WOKEN, ClusterEvent
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles import registry
from tests.integration.service.scheduling import node_of, scheduling, shipped
from tests.integration.service.stage import Document, Stage, pod_document, serving, until
from tests.unit.scheduling.planner import JOB, Planner

READ = "example.com/read"


class Reader(Plugin, Filter, PreBind):
    """Writes into each pod which reservation it got, and how much of that was taken then."""

    name = "Reader"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        known = self.handle.reservations.matched(state, node.name)
        return SUCCESS if known or "owner" not in pod.metadata.labels else Status.unschedulable("no match")

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        info = self.handle.reservations.nominated(pod, node_name, state)
        if info is not None:
            binding.annotations[READ] = f"{info.name} {(info.allocated or {}).get('cpu')}"
        return SUCCESS


class Barrier(Plugin, Filter, EnqueueExtensions):
    """Refuses pods until a test says otherwise; nothing in the cluster shows that."""

    name = "Barrier"
    is_open: ClassVar[bool] = False

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if self.is_open else Status.unschedulable("closed")

    def events_to_register(self) -> Mapping[type[KubeObject], ChangeHelps]:
        return {ConfigMap: any_change}


@asynccontextmanager
async def served(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *plugins: type[Plugin],
    nodes: Sequence[str] = ("n0",),
    pods: Sequence[Document] = (),
    **extender: Any,
) -> AsyncIterator[Stage]:
    """Run a process with Reservation and some plugins more, beside a scheduler that begins with some pods."""
    known = registry.installed().including(*plugins)
    monkeypatch.setattr(registry, "installed", lambda: known)
    binds = [{"name": name} for name in ("Reservation", "DefaultBinder")]
    enabled = [{"name": name} for name in ("Reservation", *(plugin.name for plugin in plugins))]
    document: Document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {
                    "multiPoint": {"enabled": enabled},
                    "bind": {"enabled": binds, "disabled": [{"name": "*"}]},
                },
            }
        ],
    }
    file = tmp_path / "profiles.yaml"
    file.write_text(yaml.safe_dump(document))
    settings = {"schedulerConfig": str(file), "leaderElect": False, **extender}
    async with serving(tmp_path, extender=settings) as stage:
        for name in nodes:
            await stage.add_node(name)
        for pod in pods:
            await stage.client.create_raw(resource_of(Pod), "default", pod)
        async with scheduling(stage, shipped(stage)):
            yield stage


async def test_a_plugin_reads_which_reservation_a_pod_gets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(tmp_path, monkeypatch, Reader) as stage:
        container = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
        reservation = {
            "apiVersion": "scheduling.koordinator.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": "kept"},
            "spec": {
                "ttl": "1h",
                "allocateOnce": False,
                "owners": [{"labelSelector": {"matchLabels": {"owner": "yes"}}}],
                "template": {"spec": {"containers": [container]}},
            },
        }
        await stage.client.create_raw(resource_of(Reservation), "", reservation)
        known = stage.process.cluster.store(Reservation)
        await until(lambda: any(each.is_available for each in known))
        for name, labels in (("owner", {"owner": "yes"}), ("other", {})):
            await stage.client.create_raw(resource_of(Pod), "default", pod_document(name, labels=labels))
        await until(lambda: node_of(stage, "owner") == node_of(stage, "other") == "n0")
        read = {
            name: (await stage.client.get(Pod, "default", name)).metadata.annotations.get(READ)
            for name in ("owner", "other")
        }
        assert read == {"owner": "kept 500m", "other": None}


@pytest.mark.parametrize("all_pods", [False, True])
async def test_a_plugin_has_kube_scheduler_try_its_pods_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, all_pods: bool
) -> None:
    async with served(tmp_path, monkeypatch, Barrier) as stage:
        await stage.client.create_raw(resource_of(Pod), "default", pod_document("web"))
        pods = stage.process.cluster.store(Pod)

        def refused() -> bool:
            pod = pods.get("default", "web")
            return pod is not None and any("closed" in each.message for each in pod.status.conditions)

        await until(refused)
        monkeypatch.setattr(Barrier, "is_open", True)
        queue = stage.profiles.frameworks["default-scheduler"].handle.queue
        pod = pods.get("default", "web")
        assert pod is not None
        assert WOKEN not in pod.metadata.annotations
        if all_pods:
            queue.move_all(ClusterEvent(ConfigMap, new=ConfigMap(metadata=ObjectMeta(name="any"))))
        else:
            queue.activate([pod])
        await until(lambda: node_of(stage, "web") == "n0")
        assert WOKEN in (await stage.client.get(Pod, "default", "web")).metadata.annotations


@pytest.mark.parametrize("node_choice", ["kube-scheduler", "koordpy"])
async def test_a_plan_of_one_pod_places_the_whole_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, node_choice: str
) -> None:
    nodes = ("n0", "n1", "n2")
    Planner.reset()
    monkeypatch.setattr(Planner, "order", nodes[::-1])
    pods = [pod_document(f"p{number}", labels={JOB: "j"}) for number in range(3)]
    async with served(
        tmp_path, monkeypatch, Planner, nodes=nodes, pods=pods, nodeChoice=node_choice
    ) as stage:
        await until(lambda: all(node_of(stage, f"p{number}") for number in range(3)))
        assert [node_of(stage, f"p{number}") for number in range(3)] == ["n2", "n1", "n0"]
        assert len(Planner.planned_for) == 1
        assert len(stage.extender.plans) == 0


class Gangs(Plugin, Filter, PostBind):
    """Tells the auditor of a gang of one."""

    name = "Gangs"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        self.handle.auditor.gang_added("default/g", 1)
        self.handle.auditor.gang_happened("default/g", pod, RecordType.GANG_SATISFIED)
        return SUCCESS

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.handle.auditor.gang_result("default/g", RecordType.SCHEDULED)


@pytest.mark.parametrize("enabled", [True, False])
async def test_a_plugin_reports_its_gangs_to_the_workload_auditor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, enabled: bool
) -> None:
    def ended() -> float:
        labels = {"priority": "", "event_type": "gangMinMemberSatisfied", "outcome": "gangScheduled"}
        name = "scheduler_workload_auditor_scheduling_events_before_outcome_count"
        return REGISTRY.get_sample_value(name, labels) or 0.0

    before = ended()
    async with served(tmp_path, monkeypatch, Gangs, workloadAuditor={"enabled": enabled}) as stage:
        pod = pod_document("p", annotations={"gang.scheduling.koordinator.sh/name": "g"})
        await stage.client.create_raw(resource_of(Pod), "default", pod)
        await until(lambda: node_of(stage, "p") == "n0")
        handle = stage.profiles.frameworks["default-scheduler"].handle
        assert handle.auditor.enabled is enabled
        if enabled:
            await until(lambda: ended() == before + 1)
        assert ended() == before + enabled
