"""Which pods may be evicted: what their labels and annotations say."""

import pytest

from koordpy.agent.interface import PodMeta
from koordpy.agent.toolkit.eviction import candidates
from koordpy.api.core import Pod
from koordpy.api.scheme import decode


def pod(name="p", *, phase="Running", priority=None, labels=None, annotations=None):
    metadata = {
        "name": name,
        "namespace": "d",
        "uid": name,
        "labels": {"koordinator.sh/eviction-enabled": "true", **(labels or {})},
        "annotations": annotations or {},
    }
    return decode(Pod, {"metadata": metadata, "spec": {"priority": priority}, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        (None, True),
        ('["CPUEvict"]', True),
        ('["MemoryEvict", "CPUEvict"]', True),
        ('["MemoryEvict"]', False),
        ("[]", False),
        ("null", False),
        ("", False),
        ("{bad", False),
        ("[1]", False),
    ],
)
def test_the_eviction_policy_lists_the_features_that_may_evict(text, allowed):
    annotations = {} if text is None else {"koordinator.sh/eviction-policy": text}
    assert candidates.allows(pod(annotations=annotations), "CPUEvict") is allowed


@pytest.mark.parametrize(
    ("text", "priority"),
    [("7", 7), ("-7", -7), ("x", 0), ("", 0), ("2147483648", 0), ("2147483647", 2147483647)],
)
def test_an_invalid_eviction_priority_counts_as_zero(text, priority):
    given = pod(annotations={"koordinator.sh/eviction-priority": text})
    assert candidates.eviction_priority(given) == priority


def order(pods, used):
    metas = [PodMeta(each, "") for each in pods]
    found = candidates.by_priority(
        metas, "CPUEvict", 5999, "cpu", lambda each: used.get(each.metadata.name), lambda each: each.used
    )
    return [each.pod.metadata.name for each in found]


def test_pods_are_sorted_by_eviction_priority_then_priority_then_label_then_usage():
    pods = [
        pod("usage-small", priority=5500),
        pod("usage-large", priority=5500),
        pod("label", priority=5500, labels={"koordinator.sh/priority": "1"}),
        pod("low", priority=5000),
        pod("first", priority=5999, annotations={"koordinator.sh/eviction-priority": "-1"}),
    ]
    used = {"usage-small": 1, "usage-large": 2, "label": 0, "low": 0, "first": 0}
    assert order(pods, used) == ["first", "low", "label", "usage-large", "usage-small"]


def test_pods_that_must_stay_are_left_out():
    pods = [
        pod("ended", phase="Succeeded", priority=5000),
        pod("important", priority=6000),
        pod("unwilling", priority=5000, labels={"koordinator.sh/eviction-enabled": "yes"}),
        pod("unmeasured", priority=5000),
        pod("other-feature", priority=5000, annotations={"koordinator.sh/eviction-policy": "[]"}),
        pod("victim", priority=5000),
    ]
    assert order(pods, {each.metadata.name: 1 for each in pods if each.metadata.name != "unmeasured"}) == [
        "victim"
    ]
