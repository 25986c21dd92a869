"""Which parts run, what each needs to know of the cluster, and what is refused before anything listens."""

import socket
from pathlib import Path
from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.plugin_errors import NotInstalled
from koordpy.compose.part import PartError
from koordpy.http.server.listener import ListenError
from koordpy.lib.feature_gates import FeatureGateError
from tests.e2e.controlplane.process import free_port
from tests.integration.service.stage import pod_document, review_of, service_settings, serving
from tests.processes import serve_process

SCHEDULER_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    filter:
      enabled: [{name: Gang}]
"""


async def test_admission_alone_follows_only_what_its_handlers_need(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"parts": ["admission"], "featureGates": {"ElasticValidatingWebhook": False}}
    async with serving(tmp_path, **changes) as stage:
        assert list(stage.process.listeners) == ["admission"]
        kinds = {store.type for store in stage.process.cluster.stores}
        assert ClusterColocationProfile in kinds
        assert not {"NodeMetric", "Node"} & {kind.__name__ for kind in kinds}
        answer = await stage.review(review_of(pod_document("p")))
        assert answer.json()["response"]["allowed"] is True


async def test_the_extender_alone_follows_nodes_and_pods_but_no_profiles(tmp_path: Path) -> None:
    async with serving(tmp_path, parts=["extender"]) as stage:
        assert list(stage.process.listeners) == ["extender"]
        kinds = {store.type.__name__ for store in stage.process.cluster.stores}
        assert {"Node", "Pod", "NodeMetric"} <= kinds
        assert "ClusterColocationProfile" not in kinds
        await stage.add_node("n0")
        pod = await stage.add_pod("p")
        assert await stage.bind(pod, "n0") == ""


async def test_the_debug_api_alone_follows_nothing_and_reports_it(tmp_path: Path) -> None:
    async with serving(tmp_path, parts=["debug"]) as stage:
        assert stage.process.cluster.stores == []
        assert (await stage.get("/readyz")).status_code == 200
        answer = await stage.get("/apis/v1/nodes/n0")
        assert (answer.status_code, answer.json()["message"]) == (
            404,
            "there is no node table: this process does not have the part extender",
        )
        answer = await stage.get("/apis/v1/decisions/default/p")
        assert (answer.status_code, answer.json()["message"]) == (
            404,
            "no scheduling decision about pod default/p: this process does not serve the extender",
        )
        assert (await stage.get("/apis/v1/decisions")).json() == []
        assert (await stage.get("/apis/v1/admissions")).json() == []
        assert stage.process.cluster.stores == []


async def test_a_listener_answers_only_its_own_paths(tmp_path: Path) -> None:
    async with serving(tmp_path, admission={"certDir": None}) as stage:
        for part in ("admission", "extender"):
            for path in ("/configz", "/metrics", "/apis/v1/nodes/n0"):
                assert (await stage.http.get(stage.url(part) + path)).status_code == 404
        assert (await stage.http.post(stage.url("debug") + "/mutate-pod")).status_code == 404
        assert (await stage.http.post(stage.url("debug") + "/extender/filter")).status_code == 404


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"featureGates": {"NoSuchGate": True}}, FeatureGateError, "unrecognized feature gate 'NoSuchGate'"),
        (
            {"admission": {"enabled": [{"name": "mutate-pod.Mystery"}]}},
            NotInstalled,
            r'admission\.enabled\[0\]\.name: got "mutate-pod\.Mystery".*koordpy\.admission',
        ),
        ({"admission": {"disabled": ["mutate-pod.Mystery"]}}, ConfigError, "mutate-pod.Mystery"),
        ({"debug": {"bindAddress": "0.0.0.0"}}, PartError, "debug.authentication"),
    ],
)
async def test_settings_that_cannot_be_followed_are_refused_before_anything_listens(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    port = free_port()
    changes = {**changes, "extender": {"port": port}}
    with pytest.raises(error, match=message):
        serve_process(service_settings("http://127.0.0.1:1", tmp_path, **changes))
    _assert_free(port)


async def test_an_unknown_plugin_is_refused_with_file_path_name_and_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(SCHEDULER_CONFIG)
    expected = r'scheduler.yaml: profiles\[0\].*"Gang".*koordpy\.scheduling.*skipMissingPlugins'
    with pytest.raises(ConfigError, match=expected):
        serve_process(
            service_settings("http://127.0.0.1:1", tmp_path, extender={"schedulerConfig": str(file)})
        )


async def test_an_unknown_plugin_is_left_out_if_configured(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(SCHEDULER_CONFIG)
    changes = {"schedulerConfig": str(file), "skipMissingPlugins": True}
    async with serving(tmp_path, parts=["extender"], extender=changes) as stage:
        assert stage.profiles.missing == {"Gang": ["profiles[0].plugins.filter.enabled[0].name"]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parts": ["window"]}, "parts"),
        ({"extender": {"port": 70000}}, "extender.port"),
        ({"extender": {"prot": 1}}, "extender.prot"),
        ({"debug": {"authentication": "perhaps"}}, "debug.authentication"),
    ],
)
def test_misspelt_settings_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        service_settings("http://127.0.0.1:1", tmp_path, **changes)


async def test_a_taken_port_gives_the_other_ports_back(tmp_path: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        changes = {"extender": {"port": port}, "debug": {"port": taken.getsockname()[1]}}
        with pytest.raises(ListenError, match="the debug listener cannot use"):
            serve_process(service_settings("http://127.0.0.1:1", tmp_path, **changes))
    _assert_free(port)


async def test_koordinators_gates_decide_which_webhooks_are_served(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"parts": ["admission"], "featureGates": {"PodMutatingWebhook": False}}
    async with serving(tmp_path, **changes) as stage:
        assert (await stage.review(review_of(pod_document("p")))).status_code == 404


def _assert_free(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)) as server:
        assert server.getsockname()[1] == port
