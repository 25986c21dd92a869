"""The metrics of quotas."""

from collections.abc import Iterator

from prometheus_client.registry import CollectorRegistry

from koordpy.api.koordinator import ElasticQuota
from koordpy_plugins.scheduling.elasticquota.metrics import QuotaStatus
from koordpy_plugins.scheduling.elasticquota.state.quota_info import QuotaInfo

from .controllers.quotas import Quotas


def series(metric: QuotaStatus) -> dict[tuple[str, str, str], float]:
    [family] = metric.collect()
    return {
        (sample.labels["name"], sample.labels["field"], sample.labels["resource"]): sample.value
        for sample in family.samples
    }


def made() -> tuple[Quotas, QuotaStatus]:
    quotas = Quotas()
    metric = QuotaStatus(CollectorRegistry())

    def records() -> Iterator[tuple[ElasticQuota, QuotaInfo, str]]:
        for quota in list(quotas.cluster.store(ElasticQuota)):
            info = quotas.trees.quota(quota.metadata.name)
            assert info is not None
            yield quota, info, ""

    quotas.quota("a", min={"cpu": "1500m", "memory": "1Gi"})
    metric.source = records
    return quotas, metric


def test_amounts_are_in_thousandths_of_cpu_and_whole_units_of_others() -> None:
    quotas, metric = made()
    quotas.pod("p", "a", cpu="250m")
    found = series(metric)
    assert found["a", "min", "cpu"] == 1500
    assert found["a", "min", "memory"] == 1 << 30
    assert found["a", "used", "cpu"] == 250
    assert found["a", "max", "cpu"] == found["a", "sharedWeight", "cpu"] == 100_000


def test_labels_are_koordinators() -> None:
    _, metric = made()
    [family] = metric.collect()
    assert family.name == "scheduler_elastic_quota_status"
    assert family.samples[0].labels.keys() == {"name", "resource", "tree", "is_parent", "parent", "field"}
    assert family.samples[0].labels["parent"] == "koordinator-root-quota"
    assert family.samples[0].labels["is_parent"] == "false"


def test_the_series_of_a_deleted_quota_are_gone() -> None:
    quotas, metric = made()
    quotas.quota("b", min={"cpu": "1"})
    assert ("b", "min", "cpu") in series(metric)
    quotas.cluster.store(type(quotas.stored("b"))).discard("d/b")
    assert ("b", "min", "cpu") not in series(metric)


def test_roots_of_trees_show_what_takes_no_pods() -> None:
    quotas, metric = made()
    quotas.quota("root-a", is_root="true", annotations={"unschedulable-resource": '{"cpu":"3"}'})
    quotas.quota("root-b", is_root="true", annotations={"unschedulable-resource": "[]"})
    quotas.quota("leaf", annotations={"unschedulable-resource": '{"cpu":"3"}'})
    found = series(metric)
    assert found["root-a", "unschedulable-resource", "cpu"] == 3000
    assert {name for name, field, _ in found if field == "unschedulable-resource"} == {"root-a"}


def test_a_process_that_does_not_lead_has_no_series() -> None:
    _, metric = made()
    metric.source = None
    assert series(metric) == {}
