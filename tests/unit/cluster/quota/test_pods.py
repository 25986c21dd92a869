"""Pods by the quota that their label names, and by namespace."""

from koordpy.api.core import Pod
from koordpy.api.extension import LABEL_QUOTA_NAME
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.quota.pods import QuotaPods
from koordpy.testing.objects import pod


def test_several_readers_of_one_cluster_find_the_same_pods() -> None:
    cluster = Cluster()
    first, second = QuotaPods(cluster), QuotaPods(cluster)
    cluster.store(Pod).apply(pod("a", labels={LABEL_QUOTA_NAME: "q"}))
    cluster.store(Pod).apply(pod("b", labels={LABEL_QUOTA_NAME: ""}))
    for pods in (first, second):
        assert pods.labelled("q") == ["a"]
        assert pods.labelled("other") == []
        assert pods.in_namespace("default")
        assert not pods.in_namespace("other")
