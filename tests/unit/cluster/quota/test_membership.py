"""Which quota a pod belongs to, by the quotas that the watch shows."""

from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.info import DEFAULT
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.quota.membership import QuotaMembership


def quota(name: str, namespaces: str = "", created: str | None = None, used: str = "0") -> ElasticQuota:
    metadata = {
        "name": name,
        "namespace": "q",
        "creationTimestamp": created,
        "annotations": {"quota.scheduling.koordinator.sh/namespaces": namespaces},
    }
    return decode(ElasticQuota, {"metadata": metadata, "status": {"used": {"cpu": used}}})


def membership(*quotas: ElasticQuota) -> tuple[Cluster, QuotaMembership]:
    cluster = Cluster()
    made = QuotaMembership(cluster, label_only=False)
    for each in quotas:
        cluster.store(ElasticQuota).apply(each)
    return cluster, made


def test_of_several_quotas_of_a_namespace_the_one_bound_first_counts() -> None:
    cluster, made = membership(quota("b", '["shop"]'), quota("a", '["shop"]'))
    assert made.name_of({}, "shop") == "b"
    cluster.store(ElasticQuota).discard("q/b")
    assert made.name_of({}, "shop") == "a"
    cluster.store(ElasticQuota).discard("q/a")
    assert made.name_of({}, "shop") == DEFAULT


def test_a_new_status_changes_nothing_about_the_quota_of_a_namespace() -> None:
    cluster, made = membership(quota("b", '["shop", "shop-test"]'), quota("a", '["shop"]'))
    cluster.store(ElasticQuota).apply(quota("b", '["shop", "shop-test"]', used="1"))
    assert made.name_of({}, "shop") == "b"
    cluster.store(ElasticQuota).apply(quota("b", '["shop-test"]'))
    assert (made.name_of({}, "shop"), made.name_of({}, "shop-test")) == ("a", "b")
    cluster.store(ElasticQuota).apply(quota("b", '["shop", "shop-test"]'))
    assert made.name_of({}, "shop") == "a"


def test_after_a_restart_which_lists_quotas_by_name_the_oldest_still_counts() -> None:
    old = quota("b", '["shop"]', "2030-01-01T00:00:00Z")
    new = quota("a", '["shop"]', "2030-01-02T00:00:00Z")
    for shown in ((old, new), (new, old)):
        _, made = membership(*shown)
        assert made.name_of({}, "shop") == "b"
