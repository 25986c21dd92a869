from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import resources
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode

NAMES = st.sampled_from(
    ["cpu", "memory", "hugepages-2Mi", "kubernetes.io/batch-cpu", "foo", "example.com/gpu"]
)
PLAIN = st.sampled_from(["0", "1", "2", "500m", "1Gi", "1500Mi", "128M", 4, "1e3", "100Ti"])
ODD = st.sampled_from(["100u", "1500m", "0.1Gi", "-1", "-1.5Gi", "9E", 0.5])
LISTS = st.dictionaries(NAMES, st.one_of(PLAIN, PLAIN, ODD), max_size=3)
WHOLE_LISTS = st.dictionaries(NAMES, st.sampled_from(["0", "1", "2", "1Gi", 7]), max_size=3)


def containers(
    lists: st.SearchStrategy[dict[str, Any]], prefix: str, sidecars: bool
) -> st.SearchStrategy[Any]:
    one = st.fixed_dictionaries(
        {
            "name": st.sampled_from([f"{prefix}0", f"{prefix}1"]),
            "resources": st.fixed_dictionaries({"requests": lists, "limits": lists}),
            "restartPolicy": st.sampled_from(["", "Always"]) if sidecars else st.just(""),
        }
    )
    return st.lists(one, max_size=3)


def pods(lists: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Pod]:
    both = st.fixed_dictionaries({"requests": lists, "limits": lists})
    status = st.fixed_dictionaries(
        {"name": st.sampled_from(["c0", "i0"]), "allocatedResources": lists}, optional={"resources": both}
    )
    spec = st.fixed_dictionaries(
        {
            "containers": containers(lists, "c", sidecars=False),
            "initContainers": containers(lists, "i", sidecars=True),
            "overhead": lists,
        },
        optional={"resources": both},
    )
    document = st.fixed_dictionaries(
        {
            "spec": spec,
            "status": st.fixed_dictionaries({"containerStatuses": st.lists(status, max_size=2)}),
        }
    )
    return document.map(lambda raw: decode(Pod, raw))


def pod_of(*requests: dict[str, Any], **spec: Any) -> Pod:
    listed = [{"name": f"c{i}", "resources": {"requests": each}} for i, each in enumerate(requests)]
    return decode(Pod, {"spec": {"containers": listed, **spec}})


@given(pods(LISTS))
def test_integers_give_the_answer_of_exact_quantities(pod: Pod) -> None:
    assert resources.pod_request_vector(pod) == resources.vector(resources.pod_requests(pod))
    assert resources.pod_limit_vector(pod) == resources.vector(resources.pod_limits(pod))
    assert resources.pod_status_vector(pod) == resources.vector(resources.pod_status_requests(pod))


@given(pods(LISTS))
def test_reading_a_pod_leaves_it_as_it_is(pod: Pod) -> None:
    before = repr(pod)
    resources.pod_status_requests(pod)
    resources.pod_node_request_vector(pod)
    resources.pod_nonzero_request(pod)
    resources.pod_limits(pod)
    assert repr(pod) == before


@given(pods(WHOLE_LISTS))
def test_overhead_is_added_last(pod: Pod) -> None:
    bare = resources.pod_request_vector(pod, overhead=False)
    overhead = resources.wire_vector(pod.spec.overhead)
    whole = resources.pod_request_vector(pod)
    assert whole == {name: bare.get(name, 0) + overhead.get(name, 0) for name in bare | overhead}


@given(pods(WHOLE_LISTS))
def test_a_pod_requests_at_least_the_sum_of_its_containers(pod: Pod) -> None:
    if pod.spec.resources is None:
        whole = resources.pod_request_vector(pod)
        for name in whole:
            lists = [resources.wire_vector(item.resources.requests) for item in pod.spec.containers]
            assert whole[name] >= sum(each.get(name, 0) for each in lists)


@given(pods(WHOLE_LISTS))
def test_resizes_only_ever_raise_what_is_set_aside(pod: Pod) -> None:
    spec, node = resources.pod_request_vector(pod), resources.pod_status_vector(pod)
    assert all(node[name] >= amount for name, amount in spec.items())


@pytest.mark.parametrize(
    ("init", "cpu"),
    [
        ([], 2000),
        ([("", "5")], 5000),
        ([("Always", "1")], 3000),
        ([("Always", "1"), ("", "5")], 6000),
        ([("", "5"), ("Always", "1")], 5000),
    ],
)
def test_init_containers_count_beside_earlier_sidecars(init: list[tuple[str, str]], cpu: int) -> None:
    listed = [
        {"name": f"i{i}", "restartPolicy": policy, "resources": {"requests": {"cpu": amount}}}
        for i, (policy, amount) in enumerate(init)
    ]
    assert resources.pod_request_vector(pod_of({"cpu": "2"}, initContainers=listed)) == {"cpu": cpu}


def test_requests_of_the_whole_pod_replace_what_they_name() -> None:
    pod = pod_of({"cpu": "2", "memory": "1Gi", "foo": "1"}, resources={"requests": {"cpu": "1", "foo": "9"}})
    assert resources.pod_request_vector(pod) == {"cpu": 1000, "memory": 1 << 30, "foo": 1}


def test_amounts_are_summed_before_they_are_rounded() -> None:
    pod = pod_of({"cpu": "100u", "memory": "500m"}, {"cpu": "100u", "memory": "500m"})
    assert resources.pod_request_vector(pod) == {"cpu": 1, "memory": 1}


def test_a_copied_amount_keeps_its_text_and_a_sum_does_not() -> None:
    pod = pod_of({"cpu": "1.500", "memory": "1.500"}, {"memory": "1.500"})
    assert {name: str(amount) for name, amount in resources.pod_requests(pod).items()} == {
        "cpu": "1.500",
        "memory": "3",
    }


def test_overhead_counts_only_beside_a_limit() -> None:
    listed = [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "0"}}}]
    overhead = {"cpu": "1", "memory": "1Gi", "foo": "1"}
    pod = decode(Pod, {"spec": {"containers": listed, "overhead": overhead}})
    assert resources.pod_limit_vector(pod) == {"cpu": 2000, "memory": 0}


@pytest.mark.parametrize("limit", ["1", "1000u"])
def test_overhead_is_left_out_on_request(limit: str) -> None:
    both = {"requests": {"cpu": limit}, "limits": {"cpu": limit}}
    spec = {"containers": [{"name": "c", "resources": both}], "overhead": {"cpu": "2"}}
    pod = decode(Pod, {"spec": spec})
    alone = {"1": 1000, "1000u": 1}[limit]
    for of, vector_of in (
        (resources.pod_requests, resources.pod_request_vector),
        (resources.pod_limits, resources.pod_limit_vector),
    ):
        assert vector_of(pod, overhead=False) == {"cpu": alone}
        assert resources.vector(of(pod, overhead=False)) == {"cpu": alone}
        assert vector_of(pod) == {"cpu": alone + 2000}
        assert resources.vector(of(pod)) == {"cpu": alone + 2000}


def resized(reason: str) -> Pod:
    pod = {
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "4"}}}]},
        "status": {
            "conditions": [{"type": "PodResizePending", "reason": reason}],
            "containerStatuses": [
                {"name": "c", "resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "2"}}
            ],
        },
    }
    return decode(Pod, pod)


def test_a_pending_resize_reserves_the_request_unless_it_is_infeasible() -> None:
    assert resources.pod_node_request_vector(resized("Deferred")) == {"cpu": 4000}
    assert resources.pod_node_request_vector(resized("Infeasible")) == {"cpu": 2000}
    assert resources.pod_request_vector(resized("Infeasible")) == {"cpu": 4000}


def test_nodes_count_known_names_only() -> None:
    pod = pod_of({"cpu": "1", "foo": "1", "pods": "2", "example.com/x": "3", "kubernetes.io/batch-cpu": "5"})
    counted = {"cpu": 1000, "example.com/x": 3, "kubernetes.io/batch-cpu": 5}
    assert resources.pod_node_request_vector(pod) == counted
    assert resources.pod_fit_vector(pod) == counted
    node = decode(Node, {"status": {"allocatable": {"cpu": "4", "pods": "110", "foo": "1"}}})
    assert resources.node_allocatable(node) == {"cpu": 4000, "pods": 110}


def test_what_must_fit_is_never_negative() -> None:
    assert resources.pod_fit_vector(pod_of({"cpu": "-1"})) == {"cpu": 0}


MI200 = 200 << 20


@pytest.mark.parametrize(
    ("pod", "score", "nonzero"),
    [
        (pod_of({}, {}), (200, 2 * MI200), (200, 2 * MI200)),
        (pod_of({"cpu": "0", "memory": "0"}), (0, 0), (0, 0)),
        (pod_of({"cpu": "1"}, {}), (1100, 2 * MI200), (1100, 2 * MI200)),
        (pod_of({}, resources={"requests": {"cpu": "1"}}), (1000, MI200), (1000, MI200)),
        (pod_of({"memory": "1"}, {}, resources={"requests": {"cpu": "1"}}), (1000, MI200 + 1), (1000, 1)),
        (pod_of({"cpu": "100u"}), (1, MI200), (1, MI200)),
    ],
)
def test_empty_requests_do_not_look_free(pod: Pod, score: tuple[int, int], nonzero: tuple[int, int]) -> None:
    assert resources.pod_score_request(pod) == score
    assert resources.pod_nonzero_request(pod) == nonzero


ASKING = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}, {}),
        ({"initContainers": [{"name": "i"}]}, {}),
        ({"overhead": {"cpu": "1"}}, {}),
        ({"resources": {"requests": {"cpu": "1"}}}, {}),
        ({}, {"containerStatuses": [{"name": "c"}]}),
        ({}, {"initContainerStatuses": [{"name": "c"}]}),
    ],
)
def test_versions_of_a_pod_have_equal_requests_only_if_nothing_relevant_differs(
    changed: dict[str, Any], status: dict[str, Any]
) -> None:
    pod, again = decode(Pod, {"spec": ASKING}), decode(Pod, {"spec": ASKING})
    other = decode(Pod, {"spec": ASKING | changed, "status": status})
    assert resources.surely_same(pod, again)
    assert not resources.surely_same(pod, other)
    assert not resources.surely_same(other, pod)
    assert resources.surely_same(other, other)
