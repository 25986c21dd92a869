"""The requests of every component to the API server, compared with the shipped roles.

The components run here in this process with the shipped configuration, on the embedded API server, and their
connections take down what is asked. `tests/e2e/test_rights.py` lets a real API server enforce the same rules.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from koordpy import settings
from koordpy.api import core, extension
from koordpy.api.core import (
    Namespace,
    Node,
    Pod,
    ReplicaSet,
    ReplicationController,
    Secret,
    StatefulSet,
)
from koordpy.api.koordinator import (
    ElasticQuota,
    ElasticQuotaProfile,
    NodeMetric,
    NodeResourceTopology,
    NodeSLO,
    PodGroup,
)
from koordpy.api.meta import KubeObject, format_time
from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.api.pod_migration_job import SUCCEEDED, PodMigrationJob
from koordpy.api.reservation import Reservation
from koordpy.api.schedule_explanation import ScheduleExplanation
from koordpy.api.scheme import RESOURCES, Resource, decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.errors import NotFound
from koordpy.cluster.network_topology import manager
from koordpy.compose import trial_scheduling
from koordpy.descheduling.proof.moved_pods import ANNOTATION_MOVED
from koordpy.embedded.apiserver import ApiServer
from koordpy.embedded.apiserver.server import Fault
from koordpy.features import catalog
from koordpy.features.feature import Part
from tests.eventually import PATIENCE
from tests.integration.descheduling.test_low_node_load_evicts import World
from tests.integration.service.stage import CRDS, Stage, pod_document, until
from tests.integration.worker.stage import NodeFiles, create, working
from tests.manifests.render import DEPLOY
from tests.manifests.rights import Request, grants_of, refused, request_of, shipped_grants, unused
from tests.processes import serve_process, worker_process

BASE = DEPLOY / "kustomize" / "base"
SYSTEM = "koordinator-system"
LATE: tuple[type[KubeObject], ...] = (core.Service, ReplicationController, ReplicaSet, StatefulSet)
"""What is followed only once koordpy ranks nodes itself."""
BATCH_CPU = extension.BATCH_CPU
AMPLIFICATION = extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO
TOKEN = "a-token"
SECRET = "koordinator-webhook-certs"


class Recording(Connection):
    """A connection that remembers what was asked through it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.requests: set[Request] = set()

    async def request(self, method: str, path: str, **options: Any) -> Any:
        self._note(method, path)
        return await super().request(method, path, **options)

    def stream(self, method: str, path: str, **options: Any) -> Any:
        self._note(method, path)
        return super().stream(method, path, **options)

    def _note(self, method: str, path: str) -> None:
        found = request_of(method, path)
        if found is not None:
            self.requests.add(found)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer(crds=CRDS, tokens={TOKEN: {"username": "operator"}}) as made:
        yield made


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    made = Client(Connection.to(Access(server.url)))
    await create(made, resource_of(Namespace), {"metadata": {"name": SYSTEM}})
    yield made
    await made.close()


@pytest.fixture
def connection(server: ApiServer) -> Recording:
    made = Recording.to(Access(server.url))
    assert isinstance(made, Recording)
    return made


@asynccontextmanager
async def serving(
    component: str, connection: Recording, client: Client, server: ApiServer, **changes: Any
) -> AsyncIterator[Stage]:
    found = settings.load(BASE / component / "koordpy.yaml", {"debug": {"port": 0}, **changes})
    service = serve_process(found, connection=connection)
    await service.start()
    try:
        await service.wait_ready(PATIENCE)
        stage = Stage(server, service, client, Path(found.admission.cert_dir or ""))
        yield stage
        await stage.http.aclose()
    finally:
        await service.stop()


def assert_fits(component: str, account: str, connection: Recording, *not_seen: str) -> None:
    grants = shipped_grants(component, account)
    assert refused(grants, connection.requests) == []
    idle = [grant for grant in unused(grants, connection.requests) if grant.role != "koordpy-scheduler"]
    assert sorted(map(str, idle)) == sorted(not_seen)


async def test_webhooks(tmp_path: Path, server: ApiServer, client: Client, connection: Recording) -> None:
    for name in ("mutating", "validating"):
        document = yaml.safe_load((DEPLOY / "webhooks" / f"{name}.yaml").read_text())
        await client.create_raw(_resource(document["kind"]), "", document)
    admission = {
        "bindAddress": "127.0.0.1",
        "port": 0,
        "certDir": str(tmp_path / "certs"),
        "certificates": {"host": "127.0.0.1"},
    }
    async with serving("webhooks", connection, client, server, admission=admission):
        pod = await client.create_raw(resource_of(Pod), "default", pod_document("p"))
        assert pod["metadata"]["uid"]
        # A certificate that is gone is made again.
        await client.patch(Secret, SYSTEM, SECRET, {"data": {"cert.pem": "", "tls.crt": ""}})

        async def is_mended() -> bool:
            found = await client.get_raw(resource_of(Secret), SYSTEM, SECRET)
            return bool(found["data"]["cert.pem"])

        async with asyncio.timeout(PATIENCE):
            while not await is_mended():
                await asyncio.sleep(0.05)
    assert_fits("webhooks", "koordpy-webhooks", connection)


async def test_extender(
    server: ApiServer, client: Client, connection: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manager, "PERIOD", 0.1)
    config = str(DEPLOY / "scheduler" / "koordpy-profiles.yaml")
    lease = {"leaseDuration": 60, "renewDeadline": 40, "retryPeriod": 0.2}
    extender = {"port": 0, "schedulerConfig": config, "networkTopologyManager": True, "lease": lease}
    async with serving("extender", connection, client, server, extender=extender) as stage:
        await stage.add_node("n0")
        pod = await stage.add_pod("p")
        await until(lambda: stage.process.cluster.store(Node).get("", "n0") is not None)
        assert (await stage.filter(pod, "n0"))["NodeNames"] == ["n0"]
        assert await stage.bind(pod, "n0") == ""
        ghost = {"metadata": {"name": "ghost", "namespace": "default", "uid": "1"}}
        assert "ghost" in await stage.bind(ghost, "n0")
        cluster = stage.process.cluster
        for whole in stage.profiles.wholes.values():
            whole.run_score(whole.new_state(), decode(Pod, pod), cluster.nodes.all())
        late = [cluster.late_store(type_) for type_ in LATE]
        await until(lambda: all(store.synced for store in late))
        network = resource_of(ClusterNetworkTopology)
        layers = {"networkTopologySpec": [{"topologyLayer": "NodeTopologyLayer"}]}
        await create(client, network, {"metadata": {"name": "default"}, "spec": layers})
        async with asyncio.timeout(PATIENCE):
            while not (await client.get(ClusterNetworkTopology, "", "default")).status.detail_status:
                await asyncio.sleep(0.05)
        # A pod that a hot node refused is woken when the node has cooled down.
        await stage.add_node("hot")
        await report_usage(client, "hot", "3900m")
        measured = stage.process.cluster.store(NodeMetric)
        await until(lambda: measured.get("", "hot") is not None)
        refused_pod = await stage.add_pod("refused", cpu="1")
        assert (await stage.filter(refused_pod, "hot"))["NodeNames"] == []
        await report_usage(client, "hot", "100m")
        asked = connection.requests
        await until(lambda: any(found.verb == "patch" and found.resource == "pods" for found in asked))
    assert_fits("extender", "koordpy-scheduler", connection)


async def report_usage(client: Client, node_name: str, cpu: str) -> None:
    """Write a NodeMetric as the node's agent does."""
    usage = {"nodeUsage": {"resources": {"cpu": cpu, "memory": "100Mi"}}}
    status = {"updateTime": format_time(datetime.now(UTC)), "nodeMetric": usage}
    try:
        await client.patch_status(NodeMetric, "", node_name, {"status": status})
    except NotFound:
        await create(client, resource_of(NodeMetric), {"metadata": {"name": node_name}, "spec": {}}, status)


async def test_extender_with_reservations(
    tmp_path: Path, server: ApiServer, client: Client, connection: Recording
) -> None:
    folder = DEPLOY / "kustomize" / "components" / "reservations"
    profiles = yaml.safe_load((folder / "koordpy-profiles-reservations.yaml").read_text())
    for profile in profiles["profiles"]:
        [args] = [given["args"] for given in profile["pluginConfig"] if given["name"] == "Reservation"]
        args.update(gcIntervalSeconds=1, gcDurationSeconds=1)
    file = tmp_path / "profiles.yaml"
    file.write_text(yaml.safe_dump(profiles))
    lease = {"leaseDuration": 60, "renewDeadline": 40, "retryPeriod": 0.2}
    extender = {"port": 0, "schedulerConfig": str(file), "lease": lease}
    async with serving("extender", connection, client, server, extender=extender) as stage:
        await stage.add_node("n0")
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
        spec = {
            "template": {"spec": {"containers": [container]}},
            "owners": [{"labelSelector": {"matchLabels": {"app": "web"}}}],
        }
        await create(client, resource_of(Reservation), {"metadata": {"name": "web"}, "spec": spec})
        held = stage.process.cluster.store(Reservation)
        await until(lambda: any(found.is_available for found in held))
        refused_pod = await stage.add_pod("stock", cpu="2")
        assert (await stage.filter(refused_pod, "n0"))["NodeNames"] == []
        owner = await stage.add_pod("owner", labels={"app": "web"})
        assert (await stage.filter(owner, "n0"))["NodeNames"] == ["n0"]
        assert await stage.bind(owner, "n0") == ""
        asked = connection.requests
        await until(lambda: any(found.verb == "delete" for found in asked))
        # A write after another client's is made once more, with the object as it is then.
        server.faults = _conflicts_once("/reservations/late/status")
        await create(client, resource_of(Reservation), {"metadata": {"name": "late"}, "spec": spec})
        await until(lambda: any(found.is_available and found.metadata.name == "late" for found in held))
    about = ("reservations", "reservations/status", "events")
    found = {request for request in connection.requests if request.resource in about}
    files = (folder / "role" / "rbac.yaml", folder / "rbac.yaml")
    documents = [document for path in files for document in yaml.safe_load_all(path.read_text())]
    grants = grants_of("koordpy-scheduler", documents)
    assert refused(grants, found) == []
    assert sorted(map(str, unused(grants, found))) == [
        # No plugin annotates Reservations yet; no event comes twice within six minutes.
        "koordpy-reservations: patch events.events.k8s.io",
        "koordpy-reservations: patch reservations.scheduling.koordinator.sh",
    ]


async def test_extender_with_gangs_and_quotas(
    tmp_path: Path, server: ApiServer, client: Client, connection: Recording
) -> None:
    folder = DEPLOY / "kustomize" / "components" / "gangs-and-quotas"
    profiles = yaml.safe_load((folder / "koordpy-profiles-gangs-and-quotas.yaml").read_text())
    for profile in profiles["profiles"]:
        for given in profile["pluginConfig"]:
            if given["name"] == "Coscheduling":
                given["args"]["enablePreemption"] = True
    file = tmp_path / "profiles.yaml"
    file.write_text(yaml.safe_dump(profiles))
    extender = {"port": 0, "schedulerConfig": str(file), "leaderElect": False}
    asked = connection.requests

    def seen(verb: str, resource: str) -> bool:
        return any((found.verb, found.resource) == (verb, resource) for found in asked)

    async with serving("extender", connection, client, server, extender=extender) as stage:
        await stage.add_node("n0")
        cluster = stage.process.cluster
        await until(lambda: cluster.store(Node).get("", "n0") is not None)
        document = {"metadata": {"name": "pair", "namespace": "default"}, "spec": {"minMember": 2}}
        await create(client, resource_of(PodGroup), document)
        await until(lambda: cluster.store(PodGroup).get("default", "pair") is not None)
        labels = {"pod-group.scheduling.sigs.k8s.io": "pair"}
        pods = [await stage.add_pod(f"pair-{number}", cpu="1", labels=labels) for number in range(2)]
        assert (await stage.filter(pods[0], "n0"))["NodeNames"] == ["n0"]
        binding = asyncio.create_task(stage.bind(pods[0], "n0"))
        assert (await stage.filter(pods[1], "n0"))["NodeNames"] == ["n0"]
        assert await stage.bind(pods[1], "n0") == ""
        assert await binding == ""
        await until(lambda: seen("patch", "podgroups"))
        # A gang without room: its other members are told why.
        notes = {
            "gang.scheduling.koordinator.sh/name": "large",
            "gang.scheduling.koordinator.sh/min-available": "2",
        }
        large = [await stage.add_pod(f"large-{number}", cpu="64", annotations=notes) for number in range(2)]
        assert (await stage.filter(large[0], "n0"))["NodeNames"] == []
        await until(lambda: seen("patch", "pods/status"))
    files = (folder / "role" / "rbac.yaml", folder / "rbac.yaml")
    documents = [document for path in files for document in yaml.safe_load_all(path.read_text())]
    grants = grants_of("koordpy-scheduler", documents)
    # What the role of components/reservations has besides is not looked at here.
    others = ("reservations", "reservations/status")
    found = {request for request in asked if request.resource not in others}
    assert refused([*grants, *shipped_grants("extender", "koordpy-scheduler")], found) == []
    needed = sorted(map(str, unused(grants, found)))
    assert set(needed) <= {
        # Preemption and over-use need more than happens here; the next test has what plugins declare.
        "koordpy-gangs-and-quotas: create elasticquotas.scheduling.sigs.k8s.io",
        "koordpy-gangs-and-quotas: patch elasticquotas.scheduling.sigs.k8s.io",
        "koordpy-gangs-and-quotas: create events.events.k8s.io",
        "koordpy-gangs-and-quotas: patch events.events.k8s.io",
        "koordpy-gangs-and-quotas: create pods/eviction",
        "koordpy-gangs-and-quotas: delete pods",
    }


def test_the_role_of_gangs_and_quotas_is_what_their_plugins_declare() -> None:
    folder = DEPLOY / "kustomize" / "components" / "gangs-and-quotas"
    files = (folder / "role" / "rbac.yaml", folder / "rbac.yaml")
    documents = [document for path in files for document in yaml.safe_load_all(path.read_text())]
    grants = grants_of("koordpy-scheduler", documents)
    grants += shipped_grants("extender", "koordpy-scheduler")
    declared = {
        Request(right.verb, right.group, right.resource, "", "")
        for feature in catalog.features()
        if feature.name in ("Coscheduling", "ElasticQuota") and feature.part is Part.EXTENDER
        for right in feature.rights
    }
    assert declared
    assert refused(grants, declared) == []


def test_the_role_of_numa_and_devices_is_what_their_plugins_follow_and_declare() -> None:
    folder = DEPLOY / "kustomize" / "components" / "numa-and-devices"
    files = (folder / "role" / "rbac.yaml", folder / "rbac.yaml")
    documents = [document for path in files for document in yaml.safe_load_all(path.read_text())]
    own = grants_of("koordpy-scheduler", documents)
    features = [
        feature
        for feature in catalog.features()
        if feature.name in ("NodeNUMAResource", "DeviceShare") and feature.part is Part.EXTENDER
    ]
    assert len(features) == 2
    needed = {
        Request(right.verb, right.group, right.resource, "", "")
        for feature in features
        for right in feature.rights
        if not right.gate
    }
    where = ("koordinator-system", "gpu-shared-resource-templates")
    for feature in features:
        for resource in feature.follows:
            scope = where if resource.kind == "ConfigMap" else ("", "")
            for verb in ("list", "watch"):
                needed.add(Request(verb, resource.group, resource.plural, *scope))
    assert refused([*own, *shipped_grants("extender", "koordpy-scheduler")], needed) == []
    assert unused(own, needed) == []


def test_the_role_of_device_plugins_is_what_their_gate_needs_besides() -> None:
    (feature,) = (found for found in catalog.features() if found.name == "DeviceShare")
    needed = {
        Request(right.verb, right.group, right.resource, "", "")
        for right in feature.rights
        if right.gate == "DevicePluginAdaption"
    }
    file = DEPLOY / "kustomize" / "components" / "device-plugins" / "rbac.yaml"
    own = grants_of("koordpy-scheduler", list(yaml.safe_load_all(file.read_text())))
    assert own
    assert unused(own, needed) == []
    assert refused([*own, *shipped_grants("extender", "koordpy-scheduler")], needed) == []


@pytest.mark.parametrize(
    "component",
    ["reservations", "gangs-and-quotas", "numa-and-devices", "numa-and-devices-with-gangs-and-quotas"],
)
def test_the_worker_may_follow_what_the_profiles_of_a_component_follow(component: str) -> None:
    """The worker proves evictions with the profiles of the extender (`components/worker-profiles`)."""
    documents: list[Any] = []
    folders = [DEPLOY / "kustomize" / "components" / component]
    profiles = next(folders[0].rglob("koordpy-profiles*.yaml"))
    for folder in folders:
        included = yaml.safe_load((folder / "kustomization.yaml").read_text()).get("components") or ()
        folders += [(folder / path).resolve() for path in included]
        documents += [
            found for file in folder.glob("rbac.yaml") for found in yaml.safe_load_all(file.read_text())
        ]
    found = settings.load(None, {"worker": {"descheduler": {"schedulerConfig": str(profiles)}}})
    followed = [resource_of(type_) for type_ in trial_scheduling.follows(found)]
    where = {"configmaps": SYSTEM}
    needed = {
        Request(verb, resource.group, resource.plural, where.get(resource.plural, ""))
        for resource in followed
        for verb in ("list", "watch")
    }
    own = grants_of("koordpy-worker", documents)
    assert refused([*own, *shipped_grants("worker", "koordpy-worker")], needed) == []
    assert unused(own, needed) == []


def _conflicts_once(part: str) -> Callable[[str, str], Fault | None]:
    """Answer the first write to a path with a conflict."""
    conflicts = iter((Fault(status=409),))
    return lambda method, path: next(conflicts, None) if method == "PATCH" and part in path else None


async def test_extender_that_explains(server: ApiServer, client: Client, connection: Recording) -> None:
    folder = DEPLOY / "kustomize" / "components" / "schedule-explanations"
    shipped = yaml.safe_load((folder / "koordpy.yaml").read_text())["extender"]
    fast = {"after": "0s", "refresh": "100ms", "writesPerSecond": 50}
    extender = {
        "port": 0,
        "schedulerConfig": str(DEPLOY / "scheduler" / "koordpy-profiles.yaml"),
        "lease": {"leaseDuration": 60, "renewDeadline": 40, "retryPeriod": 0.2},
        "scheduleExplanations": {**shipped["scheduleExplanations"], **fast},
    }
    async with serving("extender", connection, client, server, extender=extender) as stage:
        await stage.add_node("n0")
        await stage.add_pod("p", cpu="64")
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await client.patch_status(Pod, "default", "p", {"status": {"conditions": [condition]}})
        explained = stage.process.cluster.store(ScheduleExplanation)
        await until(lambda: explained.get("default", "p") is not None)
        asked = connection.requests
        await until(lambda: any(request.resource.endswith("explanations/status") for request in asked))
        await stage.delete_pod("p")
        await until(lambda: any(request.verb == "delete" for request in asked))
    grants = grants_of("koordpy-scheduler", list(yaml.safe_load_all((folder / "rbac.yaml").read_text())))
    resources = ("scheduleexplanations", "scheduleexplanations/status")
    about = {request for request in connection.requests if request.resource in resources}
    assert refused(grants, about) == []
    assert unused(grants, about) == []


def loopback(folder: Path) -> dict[str, Any]:
    """Return what is changed of a shipped configuration: where it listens, and its certificate's folder."""
    return {"debug": {"port": 0, "bindAddress": "127.0.0.1", "certDir": str(folder / "certs")}}


async def assert_callers_are_reviewed(http: httpx.AsyncClient) -> None:
    assert http.base_url.scheme == "https"
    assert (await http.get("/configz")).status_code == 401
    assert (await http.get("/configz", headers={"authorization": f"Bearer {TOKEN}"})).status_code == 200


async def test_worker(tmp_path: Path, server: ApiServer, client: Client, connection: Recording) -> None:
    text = (BASE / "worker" / "descheduler.yaml").read_text()
    assert "60s" in text
    file = tmp_path / "descheduler.yaml"
    file.write_text(text.replace("60s", "50ms"))
    world = World(client)
    await world.deploy()
    await world.fill()
    changes = {**loopback(tmp_path), "worker": {"descheduler": {"config": str(file)}}}
    found = settings.load(BASE / "worker" / "koordpy.yaml", changes)
    worker = worker_process(found, *found.parts or (), connection=connection)
    async with working(worker) as http, asyncio.timeout(PATIENCE):
        await assert_callers_are_reviewed(http)
        reservation = await world.place_reservation("idle")
        while not (evicted := await world.evicted()):
            await asyncio.sleep(0.05)
        await client.delete(Pod, "default", evicted[0], grace_period_seconds=0)  # its kubelet has stopped it
        # The successor of the evicted pod lands, is annotated, and ends the migration.
        await world.make_pod("successor", node_name="idle")
        await world.use_reservation(reservation, "successor")
        while not any(job.status.phase == SUCCEEDED for job in await client.list_all(PodMigrationJob)):
            await asyncio.sleep(0.05)
        while ANNOTATION_MOVED not in (await client.get(Pod, "default", "successor")).metadata.annotations:
            await asyncio.sleep(0.05)
        late = [worker.cluster.late_store(type_) for type_ in LATE]
        await until(lambda: all(store.synced for store in late))
        await use_slo_controllers(client)
        await use_quota_profiles(client)
    not_seen = (
        # The policy Delete; a job whose time to live is over.
        "delete pods",
        "delete podmigrationjobs.scheduling.koordinator.sh",
        # A Reservation that the view does not show, or that has no order yet.
        "get reservations.scheduling.koordinator.sh",
        "patch reservations.scheduling.koordinator.sh",
        # Workloads of OpenKruise, which is not installed here.
        "watch clonesets.apps.kruise.io",
        "watch statefulsets.apps.kruise.io",
    )
    of_slo = (
        # A NodeResourceTopology that changed before the write.
        "get noderesourcetopologies.topology.node.k8s.io",
    )
    seldom = [f"koordpy-worker: {right}" for right in not_seen]
    seldom += [f"koordpy-worker-slo: {right}" for right in of_slo]
    assert_fits("worker", "koordpy-worker", connection, *seldom)


async def use_slo_controllers(client: Client) -> None:
    """Add a node with batch resources, amplified, and with NUMA zones; change its policy; remove it."""
    amplified = '{"enable":true,"resourceAmplificationRatio":{"cpu":1.5}}'
    data = {"colocation-config": '{"enable":true}', "resource-amplification-config": amplified}
    config = {"metadata": {"name": "slo-controller-config", "namespace": SYSTEM}, "data": data}
    await create(client, resource_of(core.ConfigMap), config)
    amounts = {"cpu": "8", "memory": "16Gi"}
    await create(
        client,
        resource_of(Node),
        {"metadata": {"name": "colocated"}},
        {"capacity": amounts, "allocatable": amounts},
    )
    resource = {"capacity": "8", "allocatable": "8", "available": "8"}
    zones = [{"name": "node-0", "type": "Node", "resources": [{"name": "cpu", **resource}]}]
    topology = {"metadata": {"name": "colocated"}, "topologyPolicies": ["None"], "zones": zones}
    await create(client, resource_of(NodeResourceTopology), topology)
    for type_ in (NodeMetric, NodeSLO):
        await seen(client, type_, lambda _: True)
    used = {"resources": {"cpu": "1", "memory": "1Gi"}}
    status = {
        "updateTime": format_time(datetime.now(UTC)),
        "nodeMetric": {"nodeUsage": used, "systemUsage": used},
    }
    await client.patch_status(NodeMetric, "", "colocated", {"status": status})
    await seen(client, Node, lambda node: BATCH_CPU in node.status.allocatable)
    await seen(client, Node, lambda node: AMPLIFICATION in node.metadata.annotations)
    await seen(
        client,
        NodeResourceTopology,
        lambda found: any(item.name == BATCH_CPU for item in found.zones[0].resources),
    )
    changed = {
        "colocation-config": '{"enable":true,"metricReportIntervalSeconds":30}',
        "resource-threshold-config": '{"clusterStrategy":{"enable":true}}',
    }
    await client.patch(core.ConfigMap, SYSTEM, "slo-controller-config", {"data": changed})
    await seen(client, NodeMetric, lambda found: _interval(found) == 30)
    await seen(client, NodeSLO, lambda found: bool(_threshold(found)))
    # A section that cannot be read is an event, read again a series. This section has one reader: the reports
    # of several may be counted before the event is created, which then needs no patch.
    for broken, condition in (("{", lambda _: True), ("{{", lambda event: event.series is not None)):
        data = {"resource-amplification-config": broken}
        await client.patch(core.ConfigMap, SYSTEM, "slo-controller-config", {"data": data})
        while not any(map(condition, await complaints(client))):
            await asyncio.sleep(0.05)
    await client.delete(Node, "", "colocated")
    for type_ in (NodeMetric, NodeSLO):
        while any(item.metadata.name == "colocated" for item in await client.list_all(type_)):
            await asyncio.sleep(0.05)


async def complaints(client: Client) -> list[core.Event]:
    """The events about the ConfigMap of the SLO controllers."""
    events = await client.list_all(core.Event)
    return [event for event in events if event.regarding.name == "slo-controller-config"]


async def use_quota_profiles(client: Client) -> None:
    """Add a profile, whose quota is created, and change the labels of the quota."""
    spec: dict[str, Any] = {"quotaName": "root-of-all", "nodeSelector": {}}
    profile = {"metadata": {"name": "all", "namespace": "default"}, "spec": spec}
    await create(client, resource_of(ElasticQuotaProfile), profile)
    while not any(quota.metadata.name == "root-of-all" for quota in await client.list_all(ElasticQuota)):
        await asyncio.sleep(0.05)
    changed = {"spec": {"quotaLabels": {"team": "a"}}}
    await client.patch(ElasticQuotaProfile, "default", "all", changed)
    while "team" not in (await client.get(ElasticQuota, "default", "root-of-all")).metadata.labels:
        await asyncio.sleep(0.05)


async def seen(client: Client, type_: Any, condition: Callable[[Any], bool]) -> None:
    """Wait until the object of the colocated node is there and as expected."""
    while True:
        found = [item for item in await client.list_all(type_) if item.metadata.name == "colocated"]
        if found and condition(found[0]):
            return
        await asyncio.sleep(0.05)


def _interval(node_metric: NodeMetric) -> int | None:
    policy = node_metric.spec.metric_collect_policy
    return None if policy is None else policy.report_interval_seconds


def _threshold(node_slo: NodeSLO) -> bool | None:
    section = node_slo.spec.resource_used_threshold_with_be
    return None if section is None else section.enable


async def test_qos_agent(tmp_path: Path, server: ApiServer, client: Client, connection: Recording) -> None:
    files = NodeFiles(tmp_path, 2)
    capacity = {"cpu": "8", "memory": "16Gi", "pods": "20"}
    status = {"capacity": capacity, "allocatable": capacity}
    await create(client, resource_of(Node), {"metadata": {"name": "n1"}}, status)
    topology = {"metadata": {"name": "n1"}, "topologyPolicies": ["None"], "zones": []}
    await create(client, resource_of(NodeResourceTopology), topology)
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    await create(client, resource_of(Pod), {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
    section = {"enable": True, "cpuSuppressThresholdPercent": 65, "cpuSuppressPolicy": "cpuset"}
    slo = {"metadata": {"name": "n1"}, "spec": {"resourceUsedThresholdWithBE": section}}
    await create(client, resource_of(NodeSLO), slo)
    changes = {**loopback(tmp_path), "agent": {"nodeName": "n1", **files.settings}}
    found = settings.load(BASE / "qos-agent" / "koordpy.yaml", changes)
    async with working(worker_process(found, "agent", connection=connection)) as http:
        await assert_callers_are_reviewed(http)
        await until(lambda: files.cpus() == "0-5")
        await until(lambda: asked(connection, "update", "noderesourcetopologies"))
        await client.delete(NodeResourceTopology, "", "n1")
        await until(lambda: asked(connection, "create", "noderesourcetopologies"))
    # The first NodeMetric is reported after an interval of 30 seconds or more.
    report = "koordpy-qos-agent: update nodemetrics/status.slo.koordinator.sh"
    assert_fits("qos-agent", "koordpy-qos-agent", connection, report)


def asked(connection: Recording, verb: str, resource: str) -> bool:
    return any((request.verb, request.resource) == (verb, resource) for request in connection.requests)


def _resource(kind: str) -> Resource:
    return next(found for found in RESOURCES.values() if found.kind == kind)
