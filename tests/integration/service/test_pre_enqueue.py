"""A PreEnqueue plugin beside a kube-scheduler: the webhook gates a pod, the extender's process lets it go."""

from pathlib import Path
from typing import ClassVar

import pytest
import yaml

from koordpy import data
from koordpy.api.core import ConfigMap, Pod
from koordpy.api.meta import KubeObject
from koordpy.api.pre_enqueue_gates import gate_of
from koordpy.api.scheme import resource_of
from koordpy.scheduling.interface import Plugin, PreEnqueue
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles import registry
from tests.integration.service.scheduling import node_of, scheduling, shipped
from tests.integration.service.stage import pod_document, serving, until
from tests.integration.service.test_webhooks import register


class Opening(Plugin, PreEnqueue):
    """Lets pods go once there is a ConfigMap named open."""

    name = "Opening"
    pre_enqueue_events: ClassVar[tuple[type[KubeObject], ...]] = (ConfigMap,)

    def may_refuse(self, pod: Pod) -> bool:
        return "waits" in pod.metadata.labels

    def pre_enqueue(self, pod: Pod) -> Status:
        is_open = self.handle.cluster.store(ConfigMap).get("default", "open") is not None
        return SUCCESS if is_open else Status.unschedulable("closed")


async def test_a_pod_waits_for_its_plugin_and_is_then_scheduled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = registry.installed().including(Opening)
    monkeypatch.setattr(registry, "installed", lambda: known)
    document = yaml.safe_load((data.deploy("scheduler") / "koordpy-profiles.yaml").read_text())
    for profile in document["profiles"]:
        profile["plugins"].setdefault("preEnqueue", {})["enabled"] = [{"name": "Opening"}]
    file = tmp_path / "profiles.yaml"
    file.write_text(yaml.safe_dump(document))
    extender = {"schedulerConfig": str(file), "leaderElect": False}
    async with serving(tmp_path, extender=extender) as stage:
        await register(stage, "mutating.yaml")
        await stage.add_node("n0")
        async with scheduling(stage, shipped(stage)):
            scheduler = document["profiles"][0]["schedulerName"]
            for name, labels in (("gated", {"waits": "yes"}), ("plain", {})):
                pod = pod_document(name, labels=labels)
                pod["spec"]["schedulerName"] = scheduler
                await stage.client.create_raw(resource_of(Pod), "default", pod)
            live = await stage.client.get(Pod, "default", "gated")
            assert [gate.name for gate in live.spec.scheduling_gates] == [gate_of("Opening")]
            await until(lambda: node_of(stage, "plain") == "n0")
            pods = stage.process.cluster.store(Pod)

            def told() -> list[tuple[str, str]]:
                pod = pods.get("default", "gated")
                return [] if pod is None else [(c.reason, c.message) for c in pod.status.conditions]

            await until(lambda: told() == [("NotReadyForScheduling", "Opening: closed")])
            why = await stage.get("/apis/v1/pods/default/gated/history")
            assert [cause["cause"] for cause in why.json()["causes"]] == ["PreEnqueue"]
            opened = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "open"}}
            await stage.client.create_raw(resource_of(ConfigMap), "default", opened)
            await until(lambda: node_of(stage, "gated") == "n0")
