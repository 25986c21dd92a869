"""Light mode with a scheduler that binds by itself: our filters and scores count, our bind is not needed."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy.api.config_model import ConfigError
from tests.integration.service.scheduling import node_of, scheduling, shipped
from tests.integration.service.stage import Stage, service_settings, serving, until
from tests.processes import serve_process

LIGHT: dict[str, Any] = {"extender": {"mode": "light"}}
USED = {"resources": {"cpu": "3800m", "memory": "1Gi"}}


def usage(resources: dict[str, Any]) -> dict[str, Any]:
    from datetime import UTC, datetime

    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"updateTime": now, "nodeMetric": {"nodeUsage": resources}}


def load_of(stage: Stage, name: str) -> set[str]:
    """Return the names of the pods that LoadAware counts on a node."""
    framework = stage.profiles.of("default-scheduler")
    assert framework is not None
    plugin: Any = next(plugin for plugin in framework.plugins if plugin.name == "LoadAwareScheduling")
    load = plugin.cache.get(name)
    return set() if load is None else {assigned.pod.metadata.name for assigned in load.pods.values()}


async def test_hot_nodes_are_avoided_and_kube_scheduler_binds(tmp_path: Path) -> None:
    async with serving(tmp_path, **LIGHT) as stage:
        for name in ("hot", "cool"):
            await stage.add_node(name)
        await stage.report_usage("hot", usage(USED))
        await stage.report_usage("cool", usage({"resources": {"cpu": "100m", "memory": "1Gi"}}))
        async with scheduling(stage, shipped(stage, "kube-scheduler-config-light.yaml")):
            for i in range(4):
                await stage.add_pod(f"p{i}")
            await until(lambda: all(node_of(stage, f"p{i}") == "cool" for i in range(4)))
        assert load_of(stage, "cool") == {f"p{i}" for i in range(4)}
        assert load_of(stage, "hot") == set()
        extender = stage.extender
        assert len(extender.attempts) == 0
        assert {decision.outcome for decision in extender.decisions.recent()} == {"bound"}
        history = (await stage.get("/apis/v1/pods/default/p0/history")).json()
        assert [step["what"] for step in history["steps"]] == ["seen", "filtered", "bound"]
        await stage.assert_memory_equals_a_rebuild()
        stage.assert_nothing_is_left_over()


async def test_a_bind_call_is_refused_with_the_two_ways_out(tmp_path: Path) -> None:
    async with serving(tmp_path, **LIGHT) as stage:
        await stage.add_node("n0")
        pod = await stage.add_pod("p")
        assert (await stage.filter(pod, "n0"))["NodeNames"] == ["n0"]
        error = await stage.bind(pod, "n0")
        assert "remove bindVerb from the extenders" in error
        assert "set extender.mode: full" in error
        assert node_of(stage, "p") == ""
        stage.assert_nothing_is_left_over()


def profiles_with(folder: Path, **points: list[str]) -> str:
    plugins = {point: {"enabled": [{"name": name} for name in names]} for point, names in points.items()}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "koord-scheduler", "plugins": plugins}],
    }
    file = folder / "profiles.yaml"
    file.write_text(yaml.safe_dump(document))
    return str(file)


async def test_a_plugin_that_needs_the_bind_call_is_refused_at_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from koordpy_plugins.scheduling.loadaware.plugin import LoadAwareScheduling

    monkeypatch.setattr(LoadAwareScheduling, "watch_suffices", False)
    file = profiles_with(tmp_path, filter=["LoadAwareScheduling"], reserve=["LoadAwareScheduling"])
    settings = service_settings(
        "http://127.0.0.1:1", tmp_path, extender={"mode": "light", "schedulerConfig": file}
    )
    with pytest.raises(
        ConfigError, match="profile koord-scheduler: plugin LoadAwareScheduling needs reserve"
    ):
        serve_process(settings)


async def test_the_page_shows_how_a_plugin_that_hands_things_out_is_refused(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "extender.md").read_text()
    [shown] = [line for line in page.splitlines() if line.startswith("koordpy: extender.mode")]
    profiles = (
        Path(__file__).parents[3]
        / "deploy/kustomize/components/reservations/koordpy-profiles-reservations.yaml"
    )
    document = yaml.safe_load(profiles.read_text())
    document["profiles"] = [p for p in document["profiles"] if p["schedulerName"] == "koord-scheduler"]
    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump(document))
    extender = {"mode": "light", "schedulerConfig": str(tmp_path / "profiles.yaml")}
    with pytest.raises(ConfigError) as refused:
        serve_process(service_settings("http://127.0.0.1:1", tmp_path, extender=extender))
    assert f"koordpy: {refused.value}" == shown
