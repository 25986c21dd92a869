"""Quota trees on a real control plane: what Koordinator's own end-to-end tests expect of quotas.

The webhooks, the extender and the controllers run as users start them, with quotas that guarantee what is
used (`ElasticQuotaGuaranteeUsage`) and several trees (`MultiQuotaTree`).
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy import data
from koordpy.api.core import Namespace, Pod
from koordpy.api.koordinator import ElasticQuota, ElasticQuotaProfile
from koordpy.api.meta import ObjectMeta
from koordpy.api.quantity import parse
from koordpy.api.resource_list import from_wire
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError
from koordpy.scheduling.interface.pod_queues import WOKEN
from tests import loopback
from tests.e2e.controlplane.plane import ControlPlane
from tests.e2e.controlplane.process import Process, free_port
from tests.e2e.racing import Document, client_of, profiles
from tests.eventually import PATIENCE

pytestmark = pytest.mark.timeout(900)

QUOTA = "quota.scheduling.koordinator.sh/"
CPUS, MEMORY = 8, 16
NODES = ("n0", "n1")
GATES = {"MultiQuotaTree": True, "ElasticQuotaGuaranteeUsage": True}
ONE = {"cpu": "1", "memory": "2Gi"}


def amounts(share: float = 1.0) -> dict[str, str]:
    """Return a share of what a node has."""
    return {"cpu": f"{CPUS * share * 1000:g}m", "memory": f"{MEMORY * share * 1024:g}Mi"}


class Cluster:
    """A control plane with koordpy's webhooks, extender and controllers."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane, self.folder = plane, folder
        self.processes: list[Process] = []

    def start(self) -> None:
        """Start everything, on the main thread."""
        ports = {part: free_port() for part in ("extender", "debug", "admission")}
        (self.folder / "profiles.yaml").write_text(yaml.safe_dump(profiles({"ElasticQuota": {}})))
        client = {"kubeconfig": str(self.plane.kubeconfig)}
        self._run(
            "serve",
            {
                "parts": ["admission", "extender", "debug"],
                "client": client,
                "admission": {
                    "bindAddress": "127.0.0.1",
                    "port": ports["admission"],
                    "certDir": str(self.folder / "certs"),
                    "certificates": {"mode": "secret", "host": "127.0.0.1"},
                },
                "extender": {
                    "port": ports["extender"],
                    "schedulerConfig": str(self.folder / "profiles.yaml"),
                    "lease": {"namespace": "kube-system"},
                },
                "debug": {"port": ports["debug"]},
                "featureGates": GATES,
            },
            ports["debug"],
        )
        debug = free_port()
        gates = ",".join(f"{name}=true" for name in GATES)
        self._run(
            "worker",
            {"client": client, "debug": {"port": debug}},
            debug,
            "--parts=controllers",
            f"--feature-gates={gates}",
        )
        config = yaml.safe_load(data.deploy("scheduler", "kube-scheduler-config.yaml").read_text())
        for extender in config["extenders"]:
            extender["urlPrefix"] = f"http://127.0.0.1:{ports['extender']}/extender"
        self.plane.start_scheduler(config)

    def _run(self, command: str, settings: Document, debug: int, *flags: str) -> None:
        file = self.folder / f"{command}.yaml"
        file.write_text(yaml.safe_dump(settings))
        code = "from koordpy.cli import main; main()"
        arguments = ["-c", code, command, "--config", str(file), *flags]
        process = Process(command, [Path(sys.executable), *arguments], self.folder)
        self.processes.append(process)
        process.wait_ready(lambda: loopback.is_ready(f"http://127.0.0.1:{debug}/readyz"))

    def logs(self) -> str:
        return "\n".join(process.log_tail() for process in self.processes)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with ControlPlane() as plane:
        plane.install_crds()
        plane.kubectl("create", "namespace", "koordinator-system")
        for file in ("mutating.yaml", "validating.yaml"):
            plane.kubectl("create", "-f", str(data.deploy("webhooks", file)))
        capacity = {**amounts(), "pods": "110"}
        status = {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "test"}],
        }
        for name in NODES:
            meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
            document = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}
            plane.kubectl("create", "-f", "-", stdin=json.dumps(document))
        made = Cluster(plane, tmp_path_factory.mktemp("quotas"))
        try:
            made.start()
            yield made
        finally:
            for process in made.processes:
                process.stop()


class Namespaced:
    """Makes objects in a namespace of its own, and removes them at the end."""

    def __init__(self, client: Client, cluster: Cluster, namespace: str) -> None:
        self.client, self.cluster, self.namespace = client, cluster, namespace

    async def quota(
        self,
        name: str,
        minimum: Document | None,
        maximum: Document,
        **labels: str,
    ) -> ElasticQuota:
        """Create a quota. Raises ApiError where a webhook refuses it."""
        resource = resource_of(ElasticQuota)
        document = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": f"{self.namespace}-{name}", "labels": self._labels(labels)},
            "spec": {"max": maximum} if minimum is None else {"min": minimum, "max": maximum},
        }
        made = await self.client.create_raw(resource, self.namespace, document)
        return await self.client.get(ElasticQuota, self.namespace, made["metadata"]["name"])

    async def child(self, name: str, minimum: Document, parent: ElasticQuota) -> ElasticQuota:
        """Create a quota below a root that a controller made, as soon as the webhook knows the root."""
        made: ElasticQuota | None = None
        why = ""

        async def ask() -> bool:
            nonlocal made, why
            try:
                made = await self.quota(name, minimum, amounts(), parent=parent.metadata.name)
            except ApiError as error:
                why = error.message
            return made is not None

        await self._until(ask, lambda: why)
        assert made is not None
        return made

    async def profile(self, name: str, node: str, **spec: Any) -> ElasticQuota:
        """Create a profile for the nodes of a tree; return the root quota that its controller makes."""
        resource = resource_of(ElasticQuotaProfile)
        root = f"{self.namespace}-{name}-root"
        document = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": f"{self.namespace}-{name}"},
            "spec": {
                "quotaName": root,
                "quotaLabels": {f"{QUOTA}is-parent": "true"},
                "nodeSelector": {"matchLabels": {"kubernetes.io/hostname": node}},
                **spec,
            },
        }
        await self.client.create_raw(resource, self.namespace, document)
        return await self.becomes(root, lambda _: True)

    async def pod(self, name: str, quota: ElasticQuota, requests: Document) -> None:
        """Create a pod of a quota."""
        container = {"name": "c", "image": "i", "resources": {"requests": requests}}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {f"{QUOTA}name": quota.metadata.name}},
            "spec": {"containers": [container], "tolerations": [{"operator": "Exists"}]},
        }
        await self.client.create_raw(resource_of(Pod), self.namespace, document)

    async def becomes(self, name: str, holds: Callable[[ElasticQuota], bool]) -> ElasticQuota:
        """Wait until a quota is there and something holds for it."""
        found: ElasticQuota | None = None

        async def ask() -> bool:
            nonlocal found
            try:
                found = await self.client.get(ElasticQuota, self.namespace, name)
            except ApiError:
                return False
            return holds(found)

        await self._until(ask, lambda: f"{name}: {found}")
        assert found is not None
        return found

    async def bound(self, name: str) -> None:
        """Wait until a pod has a node."""

        async def ask() -> bool:
            return bool((await self.client.get(Pod, self.namespace, name)).spec.node_name)

        await self._until(ask, lambda: f"pod {name} is not bound")

    async def refused(self, name: str) -> str:
        """Wait until a pod is reported to be unschedulable; return the message."""
        message = ""

        async def ask() -> bool:
            nonlocal message
            pod = await self.client.get(Pod, self.namespace, name)
            assert pod.spec.node_name == ""
            conditions = [each for each in pod.status.conditions if each.type == "PodScheduled"]
            message = conditions[0].message if conditions else ""
            return bool(message) and conditions[0].status == "False"

        await self._until(ask, lambda: f"pod {name} is not refused")
        return message

    async def remove(self, *quotas: ElasticQuota) -> None:
        """Delete quotas one right after the other. Raises ApiError where a webhook refuses it."""
        for quota in quotas:
            await self.client.delete(ElasticQuota, self.namespace, quota.metadata.name)

    async def remove_profiles(self) -> None:
        """Delete all profiles."""
        for profile in await self.client.list_all(ElasticQuotaProfile, self.namespace):
            await self.client.delete(ElasticQuotaProfile, self.namespace, profile.metadata.name)

    async def remove_all(self) -> None:
        """Delete pods, then profiles, then quotas, children first."""
        await self.client.send(
            "DELETE", f"/api/v1/namespaces/{self.namespace}/pods?gracePeriodSeconds=0", timeout=PATIENCE
        )
        await self.remove_profiles()

        async def none_is_left() -> bool:
            for quota in await self.client.list_all(ElasticQuota, self.namespace):
                try:
                    await self.client.delete(ElasticQuota, self.namespace, quota.metadata.name)
                except ApiError:
                    continue  # it has children, or pods that a webhook still knows
            return not await self.client.list_all(ElasticQuota, self.namespace)

        await self._until(none_is_left, lambda: "quotas cannot be deleted")

    @staticmethod
    def _labels(labels: dict[str, str]) -> dict[str, str]:
        return {QUOTA + key.replace("_", "-"): value for key, value in labels.items()}

    async def _until(self, holds: Callable[[], Awaitable[bool]], complaint: Callable[[], str]) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not await holds():
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"{complaint()}\n{self.cluster.logs()}") from None


@pytest.fixture
async def made(cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Namespaced]:
    client = client_of(cluster.plane)
    namespace = request.node.name.removeprefix("test_").replace("_", "-")[:40].rstrip("-")
    await client.create(Namespace(metadata=ObjectMeta(name=namespace)))
    found = Namespaced(client, cluster, namespace)
    yield found
    await found.remove_all()
    await client.close()


def said(quota: ElasticQuota, name: str) -> dict[str, Any]:
    """Return amounts that an annotation of a quota has, as exact numbers."""
    return exact(json.loads(quota.metadata.annotations.get(QUOTA + name, "{}")))


def has(expected: Document, quota: ElasticQuota) -> bool:
    """Return whether an amount is guaranteed to a quota, and is all it may use."""
    return said(quota, "guaranteed") == exact(expected) == said(quota, "runtime")


def uses_nothing(quota: ElasticQuota) -> bool:
    return all(amount.is_zero for amount in from_wire(quota.status.used).values())


def exact(found: Document) -> dict[str, Any]:
    return {resource: parse(str(amount)) for resource, amount in found.items()}


# --- one tree ----------------------------------------------------------------------------------------


async def test_the_minimums_of_children_fit_into_that_of_their_parent(made: Namespaced) -> None:
    parent = await made.quota("parent", amounts(), amounts(), is_parent="true")
    first = await made.quota("child-1", amounts(0.5), amounts(), parent=parent.metadata.name)
    with pytest.raises(ApiError):
        await made.quota("child-2", amounts(0.6), amounts(), parent=parent.metadata.name)
    second = await made.quota("child-2", amounts(0.5), amounts(), parent=parent.metadata.name)
    await made.remove(first, second, parent)


async def test_no_pod_is_bound_beyond_the_maximum_of_its_quota(made: Namespaced) -> None:
    quota = await made.quota("basic", None, ONE)
    await made.pod("first", quota, ONE)
    await made.bound("first")
    await made.pod("second", quota, ONE)
    await made.refused("second")
    await made.client.delete(Pod, made.namespace, "first", grace_period_seconds=0)
    await made.bound("second")


async def test_a_pod_is_tried_again_when_its_quota_may_use_more_and_not_before(made: Namespaced) -> None:
    quota, other = await made.quota("full", None, ONE), await made.quota("other", None, ONE)
    await made.pod("first", quota, ONE)
    await made.pod("theirs", other, ONE)
    await made.bound("first")
    await made.becomes(other.metadata.name, lambda found: not uses_nothing(found))
    await made.pod("second", quota, ONE)
    await made.refused("second")
    await made.client.delete(Pod, made.namespace, "theirs", grace_period_seconds=0)
    more = {"spec": {"max": {"cpu": "2", "memory": "4Gi"}}}
    await made.client.patch(ElasticQuota, made.namespace, other.metadata.name, more)
    await made.becomes(other.metadata.name, uses_nothing)
    second = await made.client.get(Pod, made.namespace, "second")
    assert WOKEN not in second.metadata.annotations
    await made.client.patch(ElasticQuota, made.namespace, quota.metadata.name, more)
    await made.bound("second")
    second = await made.client.get(Pod, made.namespace, "second")
    assert WOKEN in second.metadata.annotations


async def test_a_quota_may_use_what_no_other_is_guaranteed(made: Namespaced) -> None:
    rest = {"cpu": str(CPUS - 1), "memory": f"{MEMORY - 2}Gi"}
    parent = await made.quota("parent", amounts(), amounts(), is_parent="true")
    first = await made.quota("child-1", None, amounts(), parent=parent.metadata.name)
    second = await made.quota("child-2", rest, amounts(), parent=parent.metadata.name)
    await made.pod("pod-1", first, ONE)
    await made.bound("pod-1")
    for quota, expected in ((first, ONE), (second, rest), (parent, amounts())):
        await made.becomes(quota.metadata.name, partial(has, expected))
    await made.pod("pod-2", first, ONE)
    assert "exceedDimensions" in await made.refused("pod-2")
    await made.pod("pod-3", second, ONE)
    await made.bound("pod-3")


# --- several trees -----------------------------------------------------------------------------------


async def test_profiles_make_trees_between_which_no_quota_moves(made: Namespaced) -> None:
    roots, children = [], []
    for number, node in enumerate(NODES):
        root = await made.profile(f"profile-{number}", node)
        assert exact(root.spec.min) == exact(amounts())
        assert root.metadata.labels[f"{QUOTA}is-root"] == "true"
        assert root.metadata.labels[f"{QUOTA}tree-id"] != ""
        child = await made.child(f"child-{number}", amounts(0.5), root)
        assert child.metadata.labels[f"{QUOTA}tree-id"] == root.metadata.labels[f"{QUOTA}tree-id"]
        await made.becomes(child.metadata.name, lambda found: said(found, "runtime") == exact(found.spec.min))
        roots.append(root)
        children.append(child)
    assert len({root.metadata.labels[f"{QUOTA}tree-id"] for root in roots}) == 2
    patch = {"metadata": {"labels": {f"{QUOTA}parent": roots[0].metadata.name}}}
    with pytest.raises(ApiError):
        await made.client.patch(ElasticQuota, made.namespace, children[1].metadata.name, patch)
    with pytest.raises(ApiError):
        await made.quota(
            "child-3", amounts(0.25), amounts(), parent=roots[1].metadata.name, tree_id="another"
        )
    await made.remove_profiles()
    await made.remove(*children, *roots)


async def test_a_profile_takes_a_share_of_its_nodes(made: Namespaced) -> None:
    root = await made.profile("profile", NODES[0], resourceRatio="0.5")
    assert exact(root.spec.min) == exact(amounts(0.5))
    await made.remove_profiles()
    await made.remove(root)


async def test_quotas_say_what_their_children_and_pods_have(made: Namespaced) -> None:
    root = await made.profile("profile", NODES[0])
    child = await made.child("child", amounts(0.5), root)
    await made.becomes(root.metadata.name, lambda found: said(found, "allocated") == exact(child.spec.min))
    await made.pod("pod", child, ONE)
    await made.bound("pod")
    await made.becomes(child.metadata.name, lambda found: said(found, "allocated") == exact(ONE))
    pod = await made.client.get(Pod, made.namespace, "pod")
    assert pod.spec.node_name == NODES[0], "its tree has this node only"
