"""Commands that find the replica which decides, and reach its debug API through the API server."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from koordpy.api.core import Lease, Namespace, Pod
from koordpy.api.scheme import resource_of
from koordpy.cli import cli
from koordpy.commands import debug_client, kubectl
from tests.e2e.controlplane.process import free_port
from tests.integration.service.stage import Stage, serving
from tests.servers.port_forward import PortForwarding

SYSTEM = "koordinator-system"
DEBUG = 10251


class Site:
    """A running koordpy whose debug API is in a pod, as seen from outside the cluster."""

    def __init__(self, stage: Stage, front: PortForwarding, folder: Path) -> None:
        self.stage, self.front = stage, front
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": front.url}}],
                    "users": [{"name": "u", "user": {"token": "t"}}],
                    "contexts": [
                        {"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}}
                        for name, namespace in (("main", "default"), ("other", "elsewhere"))
                    ],
                    "current-context": "main",
                }
            )
        )

    async def replica(self, name: str, component: str = "scheduler", *, at: str = "", **spec: Any) -> None:
        """Create a pod of koordpy's; its debug API is at a local URL."""
        labels = {"app.kubernetes.io/name": "koordpy", "app.kubernetes.io/component": component}
        await self.pod(SYSTEM, name, labels, **spec)
        if at:
            self.front.pods[name, DEBUG] = int(at.rpartition(":")[2])

    async def pod(self, namespace: str, name: str, labels: dict[str, str], **spec: Any) -> None:
        container = {"name": "koordpy", "image": "i"}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {"containers": [container], **spec},
        }
        await self.stage.client.create_raw(resource_of(Pod), namespace, document)
        ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.stage.client.patch_status(Pod, namespace, name, {"status": ready})

    async def lease(self, name: str, holder: str, namespace: str = SYSTEM) -> None:
        document = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"holderIdentity": holder},
        }
        await self.stage.client.create_raw(resource_of(Lease), namespace, document)

    async def run(self, *arguments: str, plugin: bool = False) -> Result:
        """Run a command with the kubeconfig; as kubectl's plugin, or with its context."""
        group = kubectl.plugin_of(cli) if plugin else cli
        where = () if plugin else ("--context", "main")
        environment = {"KUBECONFIG": str(self.kubeconfig)}
        return await asyncio.to_thread(
            CliRunner().invoke, group, [*arguments, *where], env=environment, obj={}
        )


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with (
        serving(tmp_path, parts=["extender", "debug"], extender={"leaderElect": False}) as stage,
        PortForwarding({}, stage.client.connection.server) as front,
    ):
        await stage.add_node("n0")
        await stage.client.create_raw(
            resource_of(Namespace),
            "",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}},
        )
        yield Site(stage, front, tmp_path)


async def decided(site: Site, name: str = "web") -> None:
    pod = await site.stage.add_pod(name)
    await site.stage.filter(pod, "n0")


async def test_why_reaches_the_only_replica_through_the_api_server(site: Site) -> None:
    await decided(site)
    await site.replica("koordpy-scheduler-a", at=site.stage.url("debug"))
    found = await site.run("why", "default/web")
    assert found.exit_code == 0, found.output
    assert "pod default/web (profile" in found.output
    assert set(site.front.forwarded) == {("koordpy-scheduler-a", DEBUG)}


@pytest.mark.parametrize(
    ("lease", "holder"),
    [
        ("koordpy-scheduler", "koordpy-scheduler-b_5f0c"),
        ("koord-scheduler", "koordpy-scheduler-b_1_ab12cd34"),
    ],
)
async def test_the_replica_that_holds_the_lease_is_the_one(site: Site, lease: str, holder: str) -> None:
    await decided(site)
    await site.replica("koordpy-scheduler-a")
    await site.replica("koordpy-scheduler-b", at=site.stage.url("debug"))
    await site.lease(lease, holder)
    found = await site.run("why", "default/web")
    assert found.exit_code == 0, found.output
    assert {pod for pod, _ in site.front.forwarded} == {"koordpy-scheduler-b"}


async def test_kube_schedulers_lease_comes_before_that_of_reservations(site: Site) -> None:
    await decided(site)
    await site.replica("koordpy-scheduler-a", at=site.stage.url("debug"))
    await site.replica("koordpy-scheduler-b")
    await site.lease("koord-scheduler", "koordpy-scheduler-b_1_ab12cd34")
    await site.lease("koordpy-scheduler", "koordpy-scheduler-a_5f0c")
    assert (await site.run("why", "default/web")).exit_code == 0


async def test_koordpy_beside_the_clusters_own_kube_scheduler_is_found(site: Site) -> None:
    await decided(site)
    for node in ("cp-1", "cp-2"):
        labels = {"component": "kube-scheduler"}
        await site.pod("kube-system", f"kube-scheduler-{node}", labels, hostNetwork=True, nodeName=node)
    site.front.pods["kube-scheduler-cp-2", DEBUG] = int(site.stage.url("debug").rpartition(":")[2])
    await site.lease("kube-scheduler", "cp-2_5f0c", "kube-system")
    found = await site.run("why", "default/web")
    assert found.exit_code == 0, found.output


async def test_without_a_lease_one_replica_is_used_and_named(site: Site) -> None:
    await decided(site)
    for name in ("koordpy-scheduler-a", "koordpy-scheduler-b"):
        await site.replica(name, at=site.stage.url("debug"))
    found = await site.run("why", "default/web")
    assert "no Lease (koordpy-scheduler, kube-system/kube-scheduler, koord-scheduler)" in found.stderr
    assert found.exit_code == 0


async def test_history_whatif_and_following_go_the_same_way(site: Site) -> None:
    await decided(site)
    await site.replica("koordpy-scheduler-a", at=site.stage.url("debug"))
    assert (await site.run("why", "default/web", "--history")).exit_code == 0
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}
    file = site.kubeconfig.parent / "pod.yaml"
    file.write_text(yaml.safe_dump({**pod, "spec": {"containers": [{"name": "c", "image": "i"}]}}))
    found = await site.run("whatif", "-f", str(file))
    assert "1 of 1 pod would be placed" in found.output


async def test_health_reaches_any_component(site: Site) -> None:
    await site.replica("koordpy-worker-a", "worker", at=site.stage.url("debug"))
    found = await site.run("health", "--timeout", "60", "--component", "worker")
    assert found.exit_code == 0, found.output
    assert "readyz check passed" in found.output


async def test_the_agent_is_that_of_a_node(site: Site) -> None:
    for node in ("n1", "n2"):
        await site.replica(
            f"koordpy-qos-agent-{node}", "qos-agent", at=site.stage.url("debug"), nodeName=node
        )
    found = await site.run("health", "--timeout", "60", "--component", "qos-agent")
    assert "2 QoS agents run in koordinator-system: choose one with --node" in found.stderr
    assert (
        await site.run("health", "--timeout", "60", "--component", "qos-agent", "--node", "n2")
    ).exit_code == 0
    assert {pod for pod, _ in site.front.forwarded} == {"koordpy-qos-agent-n2"}


async def test_no_pod_is_an_error_that_says_where_it_was_looked_for(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(debug_client, "DEBUG_URL", f"http://127.0.0.1:{free_port()}")
    found = await site.run("why", "default/web", "--koordpy-namespace", "nowhere")
    assert found.exit_code == 1
    assert "no pod of koordpy's scheduler in nowhere and no kube-scheduler" in found.stderr
    assert "--debug-server" in found.stderr


@pytest.mark.parametrize("forbidden", ["/pods", "/portforward"])
async def test_a_missing_right_is_named_with_those_that_are_needed(site: Site, forbidden: str) -> None:
    await site.replica("koordpy-scheduler-a", at=site.stage.url("debug"))
    site.front.forbidden = (forbidden,)
    found = await site.run("why", "default/web")
    assert found.exit_code == 1
    assert 'is forbidden: User "eve" cannot do this' in found.stderr
    assert "needed are list on pods, get on leases, get and create on pods/portforward" in found.stderr


async def test_a_pod_that_does_not_answer_is_named(site: Site) -> None:
    await site.replica("koordpy-scheduler-a")
    found = await site.run("why", "default/web")
    assert found.exit_code == 1
    assert "pod koordinator-system/koordpy-scheduler-a, port 10251: error forwarding port" in found.stderr


async def test_leases_that_may_not_be_read_do_not_stop_it(site: Site) -> None:
    await decided(site)
    for name in ("koordpy-scheduler-a", "koordpy-scheduler-b"):
        await site.replica(name, at=site.stage.url("debug"))
    site.front.forbidden = ("/leases",)
    assert (await site.run("why", "default/web")).exit_code == 0


async def test_kubectls_plugin_uses_the_kubeconfig_and_its_namespace(site: Site) -> None:
    await decided(site)
    await site.replica("koordpy-scheduler-a", at=site.stage.url("debug"))
    for arguments in (
        ("why", "web"),
        ("-n", "default", "why", "web"),
        ("why", "web", "-n", "default"),
        ("--context", "other", "why", "default/web"),
        ("--context", "other", "-n", "default", "why", "web"),
        ("--kubeconfig", str(site.kubeconfig), "why", "web"),
        ("-n", "elsewhere", "why", "default/web"),
    ):
        found = await site.run(*arguments, plugin=True)
        assert found.exit_code == 0, (arguments, found.output)
    missing = await site.run("--context", "other", "why", "web", plugin=True)
    assert "elsewhere/web" in missing.output


async def test_kubectls_plugin_has_its_own_usage(site: Site) -> None:
    found = await asyncio.to_thread(
        CliRunner().invoke, kubectl.plugin_of(cli), ["why", "--help"], prog_name=kubectl.NAME
    )
    assert found.output.startswith("Usage: kubectl koordpy why ")


async def test_a_debug_api_that_authenticates_needs_a_token(site: Site, tmp_path: Path) -> None:
    debug = {"bindAddress": "0.0.0.0", "authentication": True, "certDir": str(tmp_path / "debug")}
    other = serving(tmp_path / "other", parts=["debug"], server=site.stage.server, debug=debug)
    async with other as locked:
        await site.replica(
            "koordpy-scheduler-a", at=f"http://127.0.0.1:{locked.process.listeners['debug'].port}"
        )
        assert (await site.run("health", "--timeout", "60")).exit_code == 0  # over TLS, and open
        found = await site.run("why", "default/web")
        assert "needs a bearer token in the variable KOORDPY_TOKEN" in found.stderr


@pytest.mark.parametrize(
    "words",
    [("why", "--descheduling", "n1"), ("descheduler", "rounds", "3"), ("why", "--descheduling", "a/b")],
)
async def test_commands_about_descheduling_ask_the_worker(
    site: Site, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for default in ("DEBUG_URL", "WORKER_URL"):
        monkeypatch.setattr(debug_client, default, f"http://127.0.0.1:{free_port()}")
    found = await site.run(*words)
    assert "no pod of koordpy's worker in koordinator-system" in found.output
    await site.replica("worker-a")
    await site.replica("worker-b", "worker", at=site.stage.url("debug"))
    await site.replica("worker-c", "worker")
    await site.lease("koord-descheduler", "worker-b_1")
    for plugin in (False, True):
        found = await site.run(*words, plugin=plugin)
        assert "this process does not run the descheduler" in found.output
