"""The arguments of ElasticQuota have Koordinator's defaults, and what it rejects is rejected."""

import pytest

from koordpy.api.config_model import ConfigError, without_effect
from koordpy.api.plugin import read_args
from koordpy.api.quota.args import ElasticQuotaArgs
from koordpy.lib import int64


def read(document: object) -> ElasticQuotaArgs:
    return read_args(ElasticQuotaArgs, document, "args")


def test_the_defaults_are_koordinators() -> None:
    args = read({})
    assert args.default_quota_group_max == {"cpu": int64.MAX // 5, "memory": 1844674407370955161}
    assert (args.delay_evict_time, args.revoke_pod_interval) == (120, 1)
    assert args.quota_snapshot_update_interval == 120
    assert args.enable_runtime_quota
    assert args.enable_min_quota_scale
    assert args.disable_default_quota_preemption


def test_empty_amounts_and_an_empty_namespace_mean_the_default() -> None:
    assert read({"defaultQuotaGroupMax": {}, "quotaGroupNamespace": ""}) == read({})


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (
            {"systemQuotaGroupMax": {"memory": "-1Gi", "cpu": 1}},
            "args.systemQuotaGroupMax[memory]: elasticQuotaArgs error, systemQuotaGroupMax should be a "
            "positive value, resourceName:memory, got -1Gi",
        ),
        (
            {"delayEvictTime": "-1s"},
            "elasticQuotaArgs error, DelayEvictTime should be a positive value",
        ),
        (
            {"revokePodInterval": "-1s"},
            "elasticQuotaArgs error, RevokePodCycle should be a positive value",
        ),
    ],
)
def test_what_koordinator_rejects_is_rejected(document: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(document)
    assert problem in str(caught.value)


def test_queue_hints_are_always_on() -> None:
    assert list(without_effect(read({"enableQueueHint": True}))) == []
    (line,) = without_effect(read({"enableQueueHint": False}))
    assert line.startswith("enableQueueHint has no effect: always on")
    (line,) = without_effect(read({"quotaSnapshotUpdateInterval": "5s"}))
    assert line.startswith("quotaSnapshotUpdateInterval has no effect")
