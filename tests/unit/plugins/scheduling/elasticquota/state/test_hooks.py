"""Hook plugins of quotas in the trees that all parts of a process share."""

import random
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client import REGISTRY

from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.quota_hooks import QuotaHook, QuotaReader, QuotaRecord, QuotaUpdateState
from koordpy_plugins.scheduling.elasticquota.controllers.status import StatusWriter
from koordpy_plugins.scheduling.elasticquota.state.hooks import HookError, register
from koordpy_plugins.scheduling.elasticquota.state.trees import QuotaTrees

from ..controllers.quotas import Quotas
from ..quota_world import World

LIMIT = "example.com/pods"


class PodLimit(QuotaHook):
    """Limits the pods of quotas by an annotation."""

    def __init__(self, reader: QuotaReader, key: str, args: str) -> None:
        if args == "bad":
            raise ValueError("no such thing")
        self.reader = reader
        self.limits: dict[str, str | None] = {}
        self.pods: dict[str, set[str]] = {}
        self.changed: list[str] = []

    def is_quota_updated(self, old: QuotaRecord, new: QuotaRecord, quota: ElasticQuota) -> bool:
        return self.limits.get(quota.metadata.name) != quota.metadata.annotations.get(LIMIT)

    def post_quota_update(
        self, old: QuotaRecord | None, new: QuotaRecord | None, quota: ElasticQuota, state: QuotaUpdateState
    ) -> None:
        self.changed.append(quota.metadata.name)
        if new is None:
            self.limits.pop(quota.metadata.name, None)
        else:
            self.limits[quota.metadata.name] = quota.metadata.annotations.get(LIMIT)

    def on_pod_updated(self, quota_name: str, old: Pod | None, new: Pod | None) -> None:
        pods = self.pods.setdefault(quota_name, set())
        if old is not None:
            pods.remove(old.metadata.name)
        if new is not None:
            pods.add(new.metadata.name)

    def check_pod(self, quota_name: str, pod: Pod) -> str:
        limit, count = self.limits.get(quota_name), len(self.pods.get(quota_name, ()))
        return f"{count} of {limit} pods" if limit and count >= int(limit) else ""


class Failing(QuotaHook):
    """Raises in every method."""

    def __init__(self, reader: QuotaReader, key: str, args: str) -> None:
        pass

    def __getattribute__(self, name: str) -> Any:
        if name.startswith("__"):
            return super().__getattribute__(name)

        def fail(*args: Any) -> None:
            raise RuntimeError(f"{name} fails")

        return fail


register("pod-limit", PodLimit)
register("failing", Failing)


def hooks(*factories: str, args: str = "") -> dict[str, Any]:
    return {
        "hookPlugins": [
            {"key": f"k{index}", "factoryKey": name, "factoryArgs": args}
            for index, name in enumerate(factories)
        ]
    }


def limit_of(world: World, tree: str = "") -> PodLimit:
    manager = world.trees.managers.tree(tree)
    assert manager is not None
    plugin = manager.hooks[0].plugin
    assert isinstance(plugin, PodLimit)
    return plugin


def limited(world: World, name: str, limit: str, **options: Any) -> None:
    """Change nothing but the annotation of a quota."""
    quota = world.quota(name, **options)
    document = {
        "metadata": {
            "name": name,
            "namespace": "quotas",
            "labels": quota.metadata.labels,
            "annotations": {LIMIT: limit},
        },
        "spec": {"min": quota.spec.min, "max": quota.spec.max},
    }
    world.put(ElasticQuota, document)


@pytest.fixture
def world() -> World:
    made = World(hooks("pod-limit"))
    made.node("n1", 100)
    limited(made, "a", "2", most=50)
    return made


def test_a_quota_that_is_full_for_the_plugin_takes_no_pod(world: World) -> None:
    world.pod("p1", "a", 1, node="n1")
    assert world.filter(world.pod("p2", "a", 1)).is_success
    world.pod("p3", "a", 1, node="n1")
    refused = world.filter(world.pod("p2", "a", 1))
    assert refused.message == "CheckPod failed for hook plugin k0, err: 2 of 2 pods"
    limited(world, "a", "3", most=50)
    assert world.filter(world.pod("p2", "a", 1)).is_success, "the annotation alone has changed"


def test_pods_between_filter_and_bind_count_for_others_and_not_for_themselves(world: World) -> None:
    pods = [world.pod(f"p{index}", "a", 1) for index in range(3)]
    for pod in pods[:2]:
        assert world.filter(pod).is_success
        world.plugin.reserve_tentatively(CycleState(), pod)
    assert limit_of(world).pods == {"a": {"p0", "p1"}}
    assert world.filter(pods[2]).is_rejected
    for pod in pods[:2]:
        assert world.filter(pod).is_success
        assert world.plugin.reserve(CycleState(), pod, "n1").is_success
    assert limit_of(world).pods == {"a": {"p0", "p1"}}
    assert world.plugin.reserve(CycleState(), pods[2], "n1").is_rejected
    world.plugin.unreserve(CycleState(), pods[0], "n1")
    world.pod("p1", "a", 1, node="n1")
    assert limit_of(world).pods == {"a": {"p1"}}
    assert world.filter(pods[2]).is_success


def test_a_plugin_that_is_created_anew_knows_what_the_former_one_knew(world: World) -> None:
    world.quota("b", most=60, is_parent="true")
    world.pod("p1", "a", 1, node="n1")
    waiting, reserved = world.pod("p2", "a", 1), world.pod("p3", "a", 1)
    world.plugin.reserve_tentatively(CycleState(), waiting)
    world.trees.reserve(reserved)
    before = limit_of(world)
    limited(world, "a", "2", parent="b", most=50)
    assert limit_of(world) is before
    assert before.pods == {"a": {"p1", "p2", "p3"}}
    world.quota("lost", "nowhere", most=50)
    after = limit_of(world)
    assert after is not before
    assert (after.pods, after.limits["a"]) == ({"a": {"p1", "p2", "p3"}}, "2")
    assert set(after.changed) == {"a", "b", "lost"}
    record = after.reader.get("a")
    assert record is not None
    assert (record.parent_name, [each.name for each in after.reader.children_of("b")]) == ("b", ["a"])


def test_each_tree_has_its_own_plugin() -> None:
    world = World(hooks("pod-limit"), MultiQuotaTree=True)
    limited(world, "a", "1")
    limited(world, "t", "1", tree_id="gpu")
    world.pod("p1", "t", 1, node="n1")
    assert limit_of(world).pods == {}
    assert limit_of(world, "gpu").pods == {"t": {"p1"}}
    assert world.filter(world.pod("p2", "t", 1)).is_rejected


def test_a_plugin_that_raises_refuses_pods_and_harms_no_accounts(caplog: pytest.LogCaptureFixture) -> None:
    def failures(operation: str) -> float:
        labels = {"plugin": "k0", "operation": operation}
        return REGISTRY.get_sample_value("koordpy_quota_hook_plugin_failures_total", labels) or 0.0

    before = failures("on_pod_update")
    world = World(hooks("failing", "pod-limit"))
    world.node("n1", 100)
    world.quota("a", most=50)
    for index in range(3):
        world.pod(f"p{index}", "a", 2, node="n1")
    assert world.used("a") == "6"
    refused = world.filter(world.pod("p9", "a", 1))
    assert refused.message == "CheckPod failed for hook plugin k0, err: RuntimeError: check_pod fails"
    assert failures("on_pod_update") >= before + 3
    logged = [record for record in caplog.records if "failed in on_pod_update" in record.getMessage()]
    assert len(logged) < failures("on_pod_update") - before


async def test_a_plugin_is_asked_for_the_status_of_quotas_that_have_not_changed() -> None:
    class Noting(QuotaHook):
        notes = ""

        def update_quota_status(
            self, quota: ElasticQuota, updated: ElasticQuota | None
        ) -> ElasticQuota | None:
            if quota.metadata.annotations.get("example.com/note") == self.notes:
                return None
            updated = updated or quota
            annotations = {**updated.metadata.annotations, "example.com/note": self.notes}
            return replace(updated, metadata=replace(updated.metadata, annotations=annotations))

    noting = Noting()
    register("noting", lambda reader, key, args: noting)
    quotas = Quotas(**hooks("noting"))
    quotas.quota("a")
    quotas.pod("p1", "a", cpu="1")
    writer = StatusWriter(quotas.handle, quotas.trees)
    for noting.notes in ("first", "second"):
        assert await writer.write()
        assert quotas.annotation("a", "used") is None
        assert quotas.stored("a").metadata.annotations["example.com/note"] == noting.notes
    assert quotas.stored("a").status.used == {"cpu": "1"}


@pytest.mark.parametrize(
    ("configured", "message"),
    [
        ([{"factoryKey": "pod-limit"}], "failed to initialize index-0 hook plugin: key is empty"),
        ([{"key": "k"}], "failed to initialize hook plugin k: factory key is empty"),
        (
            [{"key": "k", "factoryKey": "missing"}],
            "failed to initialize hook plugin k: factory missing not found",
        ),
        (
            [{"key": "k", "factoryKey": "pod-limit", "factoryArgs": "bad"}, {}],
            "[failed to initialize hook-plugin k by factory pod-limit, err=no such thing, "
            "failed to initialize index-1 hook plugin: key is empty]",
        ),
    ],
)
def test_hook_plugins_that_cannot_be_created_are_named(
    configured: list[dict[str, str]], message: str
) -> None:
    with pytest.raises(HookError) as raised:
        World({"hookPlugins": configured})
    assert str(raised.value) == f"failed to init hook plugins for tree , err={message}"


@pytest.mark.parametrize("seed", range(8))
def test_a_plugin_that_saw_every_event_knows_what_a_new_one_would_know(seed: int) -> None:
    rng = random.Random(seed)
    world = World(hooks("pod-limit"), MultiQuotaTree=bool(seed % 2))
    world.node("n1", 100)
    names, parents = ["a", "b", "c", "d"], ["", "b", "c", "ghost"]
    for _ in range(60):
        name = rng.choice(names)
        stored = world.cluster.store(ElasticQuota)
        match rng.randrange(6):
            case 0 | 1:
                labels = {"is_parent": rng.choice(["true", "false"])}
                if rng.random() < 0.3:
                    labels["tree_id"] = "gpu"
                parent = rng.choice([each for each in parents if each < name or each == "ghost"])
                limited(world, name, rng.choice("123"), parent=parent, most=rng.randint(1, 50), **labels)
            case 2:
                stored.discard(f"quotas/{name}")
            case 3:
                pods = list(world.cluster.store(Pod))
                if pods:
                    world.delete(rng.choice(pods))
            case _:
                world.pod(f"p{rng.randrange(6)}", name, rng.randint(1, 3), node=rng.choice(["", "n1"]))
        fresh = QuotaTrees(world.cluster, world.trees.settings)
        assert known(world.trees) == known(fresh)
        fresh.close()


def known(trees: QuotaTrees) -> dict[str, Any]:
    found = {}
    for manager in trees.managers:
        plugin = manager.hooks[0].plugin
        assert isinstance(plugin, PodLimit)
        limits = {name: limit for name, limit in plugin.limits.items() if limit is not None}
        found[manager.tree] = limits, {name: pods for name, pods in plugin.pods.items() if pods}
    return found
