import math
from typing import Any

import pytest

from koordpy.api.config_model import ConfigError, read
from koordpy.lib import duration
from koordpy_plugins.descheduling.migrationcontroller.args import (
    WORKLOAD,
    ArbitrationArgs,
    EvictionGate,
    MigrationControllerArgs,
    ObjectLimiter,
)


def args(**fields: Any) -> MigrationControllerArgs:
    return read(MigrationControllerArgs, fields, "args")


def limiter(**fields: Any) -> ObjectLimiter:
    return read(ObjectLimiter, fields)


def test_defaults_are_koordinators() -> None:
    given = args()
    assert given.max_concurrent_reconciles == 1
    assert given.max_migrating_per_node == 2
    assert given.max_migrating_globally is None
    assert given.object_limiters == {WORKLOAD: limiter(duration="5m")}
    assert given.default_job_mode == "ReservationFirst"
    assert given.default_job_ttl == 5 * duration.MINUTE
    assert given.scheduler_names == ["koord-scheduler"]
    assert given.evictions_per_second == 10
    assert given.evict_burst == 1
    assert given.eviction_policy == "Eviction"
    assert given.arbitration_args == read(ArbitrationArgs, {"enabled": True, "interval": "500ms"})
    assert list(given.problems()) == []


def test_empty_values_get_the_defaults_too() -> None:
    assert args(objectLimiters={}, schedulerNames=[], defaultJobMode="", evictionPolicy="") == args()


def test_limiters_that_are_given_replace_the_default() -> None:
    given = args(objectLimiters={"namespace": {"duration": "1h", "maxMigrating": "10%"}})
    assert given.object_limiters == {"namespace": limiter(duration="60m", maxMigrating="10%")}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10", 10.0),
        (0.5, 0.5),
        (3, 3.0),
        ("1e2", 100.0),
        ("0x1p-2", 0.25),
        ("1_0", 10.0),
        ("inf", math.inf),
        ("", 0.0),
        ("x", 0.0),
        (" 5", 0.0),
        ("٣", 0.0),
    ],
)
def test_the_rate_may_be_text(text: float | str, number: float) -> None:
    assert args(evictQPS=text).evictions_per_second == number


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"evictQPS": "x"}, 'evictQPS: Invalid value: "x": evictQPS must be greater than 0'),
        ({"evictBurst": 0}, "evictBurst: Invalid value: 0: evictBurst must be greater than 0"),
        (
            {"skipEvictionGates": ["PVC", "nodeFit"]},
            'skipEvictionGates[1]: Invalid value: "nodeFit": unknown eviction gate',
        ),
        (
            {"maxMigratingPerNode": -1},
            "maxMigratingPerNode: Invalid value: -1: maxMigratingPerNode should be greater or equal 0",
        ),
        (
            {"maxMigratingPerWorkload": "5"},
            'maxMigratingPerWorkload: Invalid value: "5": maxMigratingPerWorkload is invalid, err: invalid '
            "value for IntOrString: invalid type: string is not a percentage ",
        ),
        (
            {"maxConcurrentReconciles": 0},
            "maxConcurrentReconciles: Invalid value: 0: maxConcurrentReconciles should be greater than or "
            "equal to 1",
        ),
        (
            {"defaultJobMode": "EvictionDirectly"},
            'defaultJobMode: Invalid value: "EvictionDirectly": defaultJobMode must be ReservationFirst or '
            "EvictDirectly",
        ),
        (
            {"defaultJobTTL": "-5s"},
            'defaultJobTTL: Invalid value: "-5s": defaultJobTTL should be positive or zero',
        ),
    ],
)
def test_problems_have_koordinators_words(fields: dict[str, Any], problem: str) -> None:
    assert [str(item) for item in args(**fields).problems()] == [problem]


def test_negative_numbers_of_a_workload_are_valid() -> None:
    assert list(args(maxMigratingPerWorkload=-1, maxUnavailablePerWorkload="25%").problems()) == []


def test_skipped_gates() -> None:
    assert args(skipEvictionGates=["PVC"]).skipped_gates == {EvictionGate.PVC}


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"args\.evictQps: unknown field.*did you mean evictQPS"):
        args(evictQps=1)
