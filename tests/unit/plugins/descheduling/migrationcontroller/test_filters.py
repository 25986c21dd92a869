"""Which pods may be migrated, in words; the results are compared with Koordinator's in tests/parity."""

from typing import Any

import pytest

from koordpy.api.core import PriorityClass
from koordpy.api.meta import ObjectMeta
from koordpy.api.pod_migration_job import PodMigrationJob

from .migrations import Migrations, pod, replica_set

EVICT = {"descheduler.alpha.kubernetes.io/evict": ""}


def reason(migrations: Migrations, name: str = "a") -> str | None:
    found = migrations.cluster.store(type(pod("x"))).get("default", name)
    assert found is not None
    return migrations.plugin.reason_against(found)


def test_a_pod_of_a_large_workload_may_be_migrated() -> None:
    migrations = Migrations(replica_set(), pod("a"))
    assert reason(migrations) is None
    assert migrations.plugin.filter(pod("a"))


async def test_a_pod_has_one_job_at_a_time_and_so_has_its_successor_of_the_same_name() -> None:
    migrations = Migrations(replica_set(), pod("a"))
    await migrations.job(pod("a"), phase="Running")
    assert not migrations.plugin.filter(pod("a"))
    assert reason(migrations) == "PodMigrationJob job-a of it has not ended: it is being carried out"
    successor = pod("a")
    successor.metadata.uid = "another"
    assert not migrations.plugin.filter(successor)
    await migrations.set_phase("job-a", "Succeeded")
    await migrations.sync()
    assert reason(migrations) is None


def test_with_reservations_only_pods_of_the_listed_schedulers_are_migrated() -> None:
    other = pod("a", spec={"schedulerName": "default-scheduler"})
    migrations = Migrations(replica_set(), other)
    assert reason(migrations) == (
        "its scheduler default-scheduler is not one of schedulerNames koord-scheduler"
    )
    assert reason(Migrations(replica_set(), other, defaultJobMode="EvictDirectly")) is None


@pytest.mark.parametrize(
    ("replicas", "args", "refused"),
    [
        (1, {}, True),
        (2, {}, False),
        (5, {"maxMigratingPerWorkload": "100%"}, True),
        (5, {"maxUnavailablePerWorkload": 7}, True),
        (5, {"maxUnavailablePerWorkload": 7, "skipCheckExpectedReplicas": True}, False),
        (1, {"skipEvictionGates": ["ExpectedReplicas"]}, False),
    ],
)
def test_a_workload_that_one_migration_affects_as_a_whole_is_protected(
    replicas: int, args: dict[str, Any], refused: bool
) -> None:
    found = reason(Migrations(replica_set(replicas=replicas), pod("a"), **args))
    assert (found is not None and "none would be left" in found) is refused


def test_a_workload_that_does_not_exist_has_no_replicas_to_spare() -> None:
    assert "expects 0 replicas" in (reason(Migrations(pod("a"))) or "")


async def test_limits_count_the_jobs_of_other_pods() -> None:
    limits: dict[str, Any] = {
        "maxMigratingGlobally": 3,
        "maxMigratingPerNode": 2,
        "maxMigratingPerNamespace": 3,
    }
    migrations = Migrations(
        replica_set(replicas=100), replica_set("other", 100), pod("a"), **limits, maxMigratingPerWorkload=50
    )
    for index in range(4):
        assert reason(migrations) is None or index >= 2
        victim = pod(f"v{index}", on="n1" if index < 2 else "n2", owner="other")
        migrations.apply(victim)
        await migrations.job(victim)
    assert reason(migrations) == "maxMigratingGlobally=3 is reached: 4 migrating"
    migrations.cluster.store(PodMigrationJob).discard("job-v3")
    migrations.cluster.store(PodMigrationJob).discard("job-v2")
    assert reason(migrations) == "maxMigratingPerNode=2 is reached on its node: 2 migrating"
    migrations.cluster.store(type(pod("x"))).discard("default/v0")
    assert reason(migrations) is None


async def test_unavailable_pods_of_a_workload_count_besides_migrating_ones() -> None:
    migrations = Migrations(replica_set(replicas=10), pod("a"), pod("b"), pod("c", ready=False))
    assert reason(migrations) is None
    await migrations.job(pod("b"))
    migrations.apply(pod("b"))
    assert reason(migrations) == (
        "maxUnavailablePerWorkload=2 of 10 is reached by ReplicaSet web: 2 unavailable or migrating"
    )
    migrations.apply(pod("c"))
    assert reason(migrations) is None


async def test_the_evict_annotation_overrides_all_but_the_first_two_checks() -> None:
    asked = pod("a", owner="", annotations=EVICT)
    migrations = Migrations(asked, maxMigratingGlobally=1)
    other = pod("b")
    migrations.apply(other)
    await migrations.job(other)
    assert reason(migrations) is None
    await migrations.job(asked)
    assert reason(migrations) == "PodMigrationJob job-a of it has not ended: it waits for arbitration"


def test_the_name_of_a_priority_threshold_counts() -> None:
    important = pod("a", priority=100)
    migrations = Migrations(replica_set(), important, priorityThreshold={"name": "high"})
    assert reason(migrations) == "PriorityClass high of priorityThreshold does not exist"
    migrations.apply(PriorityClass(metadata=ObjectMeta(name="high"), value=100))
    assert reason(migrations) == "its priority 100 is not below the threshold 100"


def test_a_limit_that_is_no_percentage_is_named() -> None:
    with pytest.raises(ValueError, match="maxMigratingPerWorkload"):
        Migrations(maxMigratingPerWorkload="many")


async def test_why_a_job_waits_is_said_of_its_pod() -> None:
    migrations = Migrations(replica_set(), pod("a"), pod("b"), maxMigratingGlobally=1)
    await migrations.job(pod("b"), phase="Running")
    await migrations.job(pod("a"))
    assert reason(migrations) == (
        "PodMigrationJob job-a of it has not ended: it waits for arbitration, because "
        "maxMigratingGlobally=1 is reached: 1 migrating"
    )


async def test_a_paused_job_is_said_to_be_paused() -> None:
    migrations = Migrations(replica_set(), pod("a"))
    await migrations.job(pod("a"))
    await migrations.client.patch(PodMigrationJob, "", "job-a", {"spec": {"paused": True}})
    await migrations.sync()
    waits = "PodMigrationJob job-a of it has not ended: it is paused (spec.paused)"
    assert reason(migrations) == waits
    await migrations.set_phase("job-a", "Running")
    await migrations.sync()
    assert reason(migrations) == f"{waits}, and counts as migrating"


async def test_a_pod_that_waits_for_a_node_has_its_job_named() -> None:
    migrations = Migrations(replica_set(), pod("a", on=""))
    await migrations.job(pod("a", on=""), phase="Running")
    assert reason(migrations) == "PodMigrationJob job-a of it has not ended: it is being carried out"


def test_a_threshold_among_the_priorities_of_the_system_is_refused_where_it_has_an_effect() -> None:
    threshold: dict[str, Any] = {"priorityThreshold": {"value": 2_000_000_001}}
    with pytest.raises(
        ValueError, match=r"priorityThreshold\.value is 2000000001, expected at most 2000000000"
    ):
        Migrations(**threshold)
    Migrations(**threshold, evictSystemCriticalPods=True)
    Migrations(**threshold, skipEvictionGates=["PriorityThreshold"])
