"""What ElasticQuotas say over time."""

from typing import Any

from koordpy.api.koordinator import ElasticQuota
from koordpy.api.scheme import decode
from koordpy.simulation.quotas import QuotaSampler, are_among
from koordpy.simulation.result import Series


def quota(name: str, used: str = "", runtime: str = "", **labels: str) -> ElasticQuota:
    notes = {"quota.scheduling.koordinator.sh/runtime": runtime} if runtime else {}
    metadata: dict[str, Any] = {"name": name, "namespace": "d", "annotations": notes, "labels": labels}
    spec = {"min": {"cpu": "1"}, "max": {"cpu": "4"}}
    status = {"used": {"cpu": used}} if used else {}
    return decode(ElasticQuota, {"metadata": metadata, "spec": spec, "status": status})


def test_what_a_quota_says_is_sampled() -> None:
    quotas, series = [quota("a", "500m", '{"cpu": "2"}')], Series()
    sampler = QuotaSampler(quotas, series)
    series.times.append(1.0)
    sampler.sample()
    quotas[:] = [quota("a", "1500m", '{"cpu": 3, "memory": 1}'), quota("later")]
    series.times.append(2.0)
    sampler.sample()
    assert series.quota_used == {"a": {"cpu": [0.5, 1.5]}, "later": {"cpu": [0.0, 0.0]}}
    assert series.quota_runtime == {"a": {"cpu": [2.0, 3.0]}, "later": {"cpu": [0.0, 0.0]}}
    found = sampler.result()
    assert list(found) == ["a", "later"]
    assert (found["a"]["cpu"].used.mean, found["a"]["cpu"].runtime.max) == (1.0, 3.0)
    assert (found["a"]["cpu"].min, found["a"]["cpu"].max) == (1.0, 4.0)


def test_roots_and_broken_annotations_are_left_out() -> None:
    root = quota("koordinator-root-quota", "1")
    labelled = quota("tree", "1", **{"quota.scheduling.koordinator.sh/is-root": "true"})
    series = Series(times=[1.0])
    QuotaSampler([root, labelled, quota("a", "1", "[")], series).sample()
    assert series.quota_runtime == {"a": {"cpu": [0.0]}}


def test_profiles_lead_to_quotas_too() -> None:
    assert are_among([{"kind": "Namespace"}, {"kind": "ElasticQuotaProfile"}])
    assert not are_among([{"kind": "Namespace"}])
