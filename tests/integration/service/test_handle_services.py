"""What a plugin gets from its handle, over the extender's HTTP: a scheduler asks, the plugin answers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import resource_of
from koordpy.scheduling.interface import Binding, Filter, Plugin, PreBind
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles import registry
from tests.integration.service.scheduling import node_of, scheduling, shipped
from tests.integration.service.stage import Document, Stage, pod_document, serving, until

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


@asynccontextmanager
async def served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *plugins: type[Plugin], **extender: Any
) -> AsyncIterator[Stage]:
    """Run a process with Reservation and some plugins more, on one node, beside a scheduler."""
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
        await stage.add_node("n0")
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
