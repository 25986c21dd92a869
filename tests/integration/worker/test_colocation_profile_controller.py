"""The profile controller against an API server: which pods it writes, how often, and what it leaves alone."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.api.core import Lease, Namespace, Pod
from koordpy.api.koordinator import ClusterColocationProfile
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.errors import NotFound
from koordpy.cluster.informers import Informers
from koordpy.compose.part import PartError
from koordpy.compose.process import Process
from koordpy.controllers.interface import Handle
from koordpy.controllers.reconcile import ReconcileError
from koordpy.embedded.apiserver import ApiServer, Fault
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGateError, FeatureGates
from koordpy_plugins.admission.cluster_colocation_profile.args import ColocationProfileArgs
from koordpy_plugins.admission.cluster_colocation_profile.controller import ColocationProfileController
from tests.eventually import PATIENCE
from tests.integration.service.stage import CRDS, pod_document, until
from tests.integration.worker.stage import create, worker_settings, working
from tests.processes import worker_process

MANAGED = {"config.koordinator.sh/controller-managed": "true"}
SPARK = {"app": "spark"}
GATE = {"ColocationProfileController": True}


class Rolls(random.Random):
    """Rolls that are known beforehand."""

    def __init__(self, *numbers: int) -> None:
        super().__init__(0)
        self.numbers = list(numbers)

    def randint(self, a: int, b: int) -> int:
        assert (a, b) == (0, 99)
        return self.numbers.pop(0)


class World:
    """A cluster, and a profile controller that is called by hand. The clock stands still."""

    def __init__(self, server: ApiServer, client: Client) -> None:
        self.server, self.client = server, client
        self.clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.informers: Informers | None = None
        self.pauses: list[float] = []

    async def profile(self, name: str = "p", *, labels: dict[str, str] | None = None, **spec: Any) -> None:
        metadata = {"name": name, "labels": MANAGED if labels is None else labels}
        await create(self.client, resource_of(ClusterColocationProfile), {"metadata": metadata, "spec": spec})

    async def change(self, patch: dict[str, Any], name: str = "p") -> None:
        await self.client.patch(ClusterColocationProfile, "", name, patch)

    async def pod(self, name: str, labels: dict[str, str] = SPARK, node: str = "", **metadata: Any) -> None:
        document = pod_document(name, labels=dict(labels), **metadata)
        if node:
            document["spec"]["nodeName"] = node
        await create(self.client, resource_of(Pod), document)

    async def labels(self, name: str, namespace: str = "default") -> dict[str, str]:
        return (await self.client.get(Pod, namespace, name)).metadata.labels

    async def controller(self, *rolls: int, **args: Any) -> ColocationProfileController:
        """Return a controller that has seen everything created so far."""

        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)

        self.cluster = Cluster()
        handle = Handle(self.cluster, FeatureGates({}), self.client, self.clock, Rolls(*rolls), sleep)
        made = ColocationProfileController(ColocationProfileArgs(**args), handle)
        made.setup()
        self.informers = Informers(self.cluster, self.client)
        await self.informers.start()
        await self.informers.wait_synced(PATIENCE)
        return made

    def _is_at(self, type_: type[KubeObject], versions: object) -> bool:
        return _versions(self.cluster.store(type_)) == versions

    async def seen(self) -> None:
        """Wait until the controller's view is that of the API server."""
        for type_ in (Pod, ClusterColocationProfile, Namespace):
            every = await self.client.list_all(type_)
            now = _versions(every)
            await until(partial(self._is_at, type_, now))


def _versions(objects: Iterable[KubeObject]) -> dict[str, str]:
    return {item.metadata.key: item.metadata.resource_version for item in objects}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with ApiServer(crds=CRDS) as server:
        client = Client(Connection.to(Access(server.url)))
        made = World(server, client)
        yield made
        if made.informers is not None:
            await made.informers.stop()
        await client.close()


async def test_pending_pods_that_match_are_patched_and_others_left_alone(world: World) -> None:
    await world.profile(
        selector={"matchLabels": SPARK},
        labels=MANAGED,
        qosClass="BE",
        koordinatorPriority=7,
        annotations={"a": "b"},
        labelKeysMapping={"app": "kind", "missing": "empty"},
        schedulerName="koord-scheduler",
        priorityClassName="koord-batch",
        patch={"metadata": {"labels": {"patched": "yes"}}},
    )
    await world.pod("waiting")
    await world.pod("placed", node="n")
    await world.pod("other", {"app": "web"})
    controller = await world.controller()
    assert await controller.reconcile("p") == 30
    pod = await world.client.get(Pod, "default", "waiting")
    assert pod.metadata.labels == SPARK | {
        "koordinator.sh/qosClass": "BE",
        "koordinator.sh/priority": "7",
        "kind": "spark",
        "empty": "",
        "patched": "yes",
    }
    assert pod.metadata.annotations == {"a": "b"}
    assert pod.spec.scheduler_name == "default-scheduler"
    assert not pod.spec.priority_class_name
    assert await world.labels("placed") == SPARK
    assert await world.labels("other") == {"app": "web"}


async def test_a_pod_is_left_alone_until_the_cache_forgets_it(world: World) -> None:
    await world.profile(selector={}, qosClass="BE")
    await world.pod("one")
    controller = await world.controller()
    await controller.reconcile("p")
    await world.client.patch(
        Pod, "default", "one", {"metadata": {"labels": {"koordinator.sh/qosClass": "LS"}}}
    )
    world.clock.advance(300)
    await world.seen()
    await controller.reconcile("p")
    assert (await world.labels("one"))["koordinator.sh/qosClass"] == "LS"
    world.clock.advance(1)
    await controller.reconcile("p")
    assert (await world.labels("one"))["koordinator.sh/qosClass"] == "BE"


async def test_a_second_pass_writes_nothing(world: World) -> None:
    await world.profile(selector={}, qosClass="BE", patch={"spec": {"tolerations": [{"key": "batch"}]}})
    await world.pod("one")
    controller = await world.controller(force_update_pod_duration=0.0)
    await controller.reconcile("p")
    before = (await world.client.get(Pod, "default", "one")).metadata.resource_version
    world.clock.advance(1)
    await world.seen()
    await controller.reconcile("p")
    assert (await world.client.get(Pod, "default", "one")).metadata.resource_version == before


async def test_a_changed_profile_is_applied_at_once(world: World) -> None:
    await world.profile(selector={}, labels=MANAGED, qosClass="BE")
    await world.pod("one")
    controller = await world.controller()
    await controller.reconcile("p")
    await world.change({"spec": {"qosClass": "LS"}})
    await world.seen()
    assert "p" in {controller.queue.pop(), controller.queue.pop()}
    await controller.reconcile("p")
    assert (await world.labels("one"))["koordinator.sh/qosClass"] == "LS"


async def test_suffixes_are_appended_at_every_visit(world: World) -> None:
    await world.profile(selector={}, labelSuffixes={"app": "-x"})
    await world.pod("one")
    controller = await world.controller()
    for _ in range(2):
        await controller.reconcile("p")
        world.clock.advance(301)
        await world.seen()
    assert (await world.labels("one"))["app"] == "spark-x-x"


@pytest.mark.parametrize(("burst", "changed"), [(0, 0), (2, 2)])
async def test_the_limiter_bounds_what_one_pass_writes(world: World, burst: int, changed: int) -> None:
    await world.profile(selector={}, qosClass="BE")
    for name in ("a", "b", "c"):
        await world.pod(name)
    controller = await world.controller(update_pod_qps=0, update_pod_qps_burst=burst)
    assert await controller.reconcile("p") == 30
    labels = [await world.labels(name) for name in ("a", "b", "c")]
    assert sum("koordinator.sh/qosClass" in item for item in labels) == changed


async def test_the_roll_is_repeated_at_every_pass(world: World) -> None:
    await world.profile(selector={}, qosClass="BE", probability=50)
    await world.pod("one")
    controller = await world.controller(70, 30)
    await controller.reconcile("p")
    assert await world.labels("one") == SPARK
    await controller.reconcile("p")
    assert (await world.labels("one"))["koordinator.sh/qosClass"] == "BE"


async def test_without_a_selector_nothing_is_selected_and_an_empty_one_selects_all(world: World) -> None:
    await world.profile(qosClass="BE")
    await world.pod("one", {})
    controller = await world.controller()
    assert await controller.reconcile("p") == 30
    assert await world.labels("one") == {}
    await world.change({"spec": {"selector": {}}})
    await world.seen()
    await controller.reconcile("p")
    assert await world.labels("one") == {"koordinator.sh/qosClass": "BE"}


async def test_only_profiles_that_say_so_are_applied_again(world: World) -> None:
    await world.profile(selector={}, qosClass="BE", labels={})
    await world.profile("gone", selector={}, qosClass="BE")
    await world.pod("one")
    controller = await world.controller()
    assert await controller.reconcile("p") is None
    await world.client.delete(ClusterColocationProfile, "", "gone")
    await world.seen()
    assert await controller.reconcile("gone") is None
    assert await world.labels("one") == SPARK
    assert await (await world.controller(reconcile_by_default=True)).reconcile("p") == 30
    assert "koordinator.sh/qosClass" in await world.labels("one")


async def test_a_profile_that_loses_its_label_is_done(world: World) -> None:
    await world.profile(selector={}, qosClass="BE")
    controller = await world.controller()
    assert await controller.reconcile("p") == 30
    await world.client.patch(
        ClusterColocationProfile, "", "p", {"metadata": {"labels": dict.fromkeys(MANAGED)}}
    )
    await world.seen()
    assert await controller.reconcile("p") is None


async def test_namespaces_are_selected_by_their_labels(world: World) -> None:
    await create(world.client, resource_of(Namespace), {"metadata": {"name": "batch", "labels": {"b": "1"}}})
    await world.profile(selector={}, namespaceSelector={"matchLabels": {"b": "1"}}, qosClass="BE")
    await world.profile("all", selector={}, namespaceSelector={}, koordinatorPriority=1)
    await world.pod("one")
    await world.pod("two", namespace="batch")
    controller = await world.controller()
    await controller.reconcile("p")
    await controller.reconcile("all")
    assert await world.labels("one") == SPARK | {"koordinator.sh/priority": "1"}
    assert "koordinator.sh/qosClass" in await world.labels("two", "batch")


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, "Like"),
        ({"selector": {}, "probability": "half"}, "string is not a percentage"),
    ],
)
async def test_what_cannot_be_read_is_tried_again(world: World, spec: dict[str, Any], complaint: str) -> None:
    await world.profile(**spec)
    await world.pod("one")
    controller = await world.controller()
    with pytest.raises(ReconcileError, match=f"ClusterColocationProfile p: .*{complaint}"):
        await controller.reconcile("p")


async def test_a_refused_pod_is_tried_again_at_the_next_pass_and_does_not_stop_the_others(
    world: World,
) -> None:
    await world.profile(selector={}, qosClass="BE", patch={"spec": {"nodeSelector": {"disk": "ssd"}}})
    await world.pod("one")
    await world.profile("q", selector={}, koordinatorPriority=1)
    controller = await world.controller()
    assert await controller.reconcile("p") == 30
    assert len(controller.done) == 0
    await controller.reconcile("q")
    assert await world.labels("one") == SPARK | {"koordinator.sh/priority": "1"}


async def test_conflicts_are_retried_four_times_in_all(world: World) -> None:
    await world.profile(selector={}, qosClass="BE")
    await world.pod("one")
    controller = await world.controller()
    left = 3

    def refuse(method: str, _: str) -> Fault | None:
        nonlocal left
        if method != "PATCH" or not left:
            return None
        left -= 1
        return Fault(status=409)

    world.server.faults = refuse
    await controller.reconcile("p")
    world.server.faults = None
    assert len(world.pauses) == 3
    assert (await world.labels("one"))["koordinator.sh/qosClass"] == "BE"


async def test_a_pod_that_was_placed_meanwhile_is_left_alone(world: World) -> None:
    await world.profile(selector={}, qosClass="BE")
    await world.pod("one")
    controller = await world.controller()
    assert world.informers is not None
    await world.informers.stop()
    await world.client.bind(await world.client.get(Pod, "default", "one"), "n")
    await controller.reconcile("p")
    assert await world.labels("one") == SPARK


async def test_the_plan_is_what_would_be_written(world: World) -> None:
    await world.profile("b", selector={"matchLabels": SPARK}, qosClass="BE", probability=50)
    await world.profile("a", selector={}, patch={"spec": {"containers": [{"image": "unnamed"}]}})
    await world.profile("c", selector={"matchLabels": {"app": "web"}}, qosClass="LS")
    await world.profile("d", selector={}, probability=0)
    await world.pod("one")
    controller = await world.controller()
    document = await world.client.get_raw(resource_of(Pod), "default", "one")
    broken, spark = controller.plan(document)
    assert (broken.subject, broken.patch) == ("a", {})
    assert "merge key" in broken.problem
    assert (spark.subject, spark.problem) == ("b", "")
    assert spark.patch == {"metadata": {"labels": {"koordinator.sh/qosClass": "BE"}}}
    assert decode(Pod, document).metadata.labels == SPARK
    document["spec"]["nodeName"] = "n"
    assert list(controller.plan(document)) == []


async def test_a_controller_that_leads_again_reconciles_everything_again(world: World) -> None:
    await world.profile(selector={}, qosClass="BE")
    controller = await world.controller()

    async def leads_until_done(name: str) -> None:
        await world.pod(name)
        await world.seen()
        leading = asyncio.create_task(controller.run())
        async with asyncio.timeout(PATIENCE):
            while "koordinator.sh/qosClass" not in await world.labels(name):
                await asyncio.sleep(0.01)
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)

    await leads_until_done("one")
    await leads_until_done("two")


# --- in the worker -----------------------------------------------------------------------------------


@pytest.fixture
def make(world: World) -> Callable[..., Process]:
    def worker(*, gates: dict[str, bool] = GATE, **controllers: Any) -> Process:
        lease = {"namespace": "default", "leaseDuration": 3, "renewDeadline": 2, "retryPeriod": 0.2}
        found = worker_settings(world.server.url, controllers={"lease": lease, **controllers})
        return worker_process(found.model_copy(update={"feature_gates": gates}), "controllers")

    return worker


async def test_a_worker_applies_profiles_and_another_takes_over(
    world: World, make: Callable[..., Process]
) -> None:
    await world.profile(selector={}, qosClass="BE")
    await world.pod("one")

    async def changed(name: str) -> None:
        while "koordinator.sh/qosClass" not in await world.labels(name):
            pass

    args = {"colocationprofile": {"reconcileInterval": "100ms"}}
    async with working(make(args=args)) as http:
        await changed("one")
        metrics = (await http.get("/metrics")).text
        lease = await world.client.get(Lease, "default", "koordinator-manager")
        assert lease.spec.holder_identity
        await world.pod("two")
        await changed("two")
    assert 'workqueue_adds_total{controller="colocationprofile",name="colocationprofile"}' in metrics
    assert "koordinator_manager_is_leader 1.0" in metrics
    async with working(make(args=args)):
        await world.pod("three")
        await changed("three")


@pytest.mark.parametrize(
    ("settings", "error", "complaint"),
    [
        (
            {"selection": ["colocationprofile"], "gates": {}},
            PartError,
            "nothing to run: .*'colocationprofile' and the feature gates leave none",
        ),
        (
            {
                "selection": [
                    "-colocationprofile",
                    "-nodemetric",
                    "-noderesource",
                    "-nodeslo",
                    "-quotaprofile",
                    "*",
                ]
            },
            PartError,
            "leave none of the controllers",
        ),
        ({"selection": ["typo"]}, ConfigError, "got 'typo'"),
        ({"gates": {"Nope": True}}, FeatureGateError, "Nope"),
        (
            {"lease": {"renewDeadline": 20}},
            ConfigError,
            r"worker\.controllers\.lease: .*leaseDuration .*> renew",
        ),
        ({"args": {"colocationprofile": {"updatePodQPS": -1}}}, ConfigError, "updatePodQPS"),
    ],
)
async def test_what_cannot_be_hosted_is_refused(
    make: Callable[..., Process], settings: dict[str, Any], error: type[Exception], complaint: str
) -> None:
    with pytest.raises(error, match=complaint):
        make(**settings)


async def test_a_worker_without_the_custom_resource_is_not_ready(make: Callable[..., Process]) -> None:
    async with ApiServer() as bare:
        settings = worker_settings(bare.url).model_copy(update={"feature_gates": GATE})
        async with working(worker_process(settings, "controllers")) as http:
            text = (await http.get("/readyz")).text
            assert "waits for this: informers" in text


async def test_reading_a_pod_that_is_gone_is_no_end(world: World) -> None:
    await world.profile(selector={}, qosClass="BE")
    await world.pod("one")
    controller = await world.controller()
    assert world.informers is not None
    await world.informers.stop()
    await world.client.delete(Pod, "default", "one", grace_period_seconds=0)
    with pytest.raises(NotFound):
        await world.client.get(Pod, "default", "one")
    assert await controller.reconcile("p") == 30
    assert len(controller.done) == 0
