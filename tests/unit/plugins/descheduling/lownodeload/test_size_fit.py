"""The option that prefers pods whose size fits the excess of their node."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from koordpy_plugins.descheduling.lownodeload import balancing
from koordpy_plugins.descheduling.lownodeload.size_fit import size_fit

from .test_low_node_load import Evictions, usage

amounts = st.dictionaries(st.sampled_from(["cpu", "memory"]), st.integers(1, 50))


def test_of_pods_that_cover_the_excess_the_smallest_comes_first() -> None:
    excess = {"cpu": 1000, "memory": 10}
    sizes = {
        "exact": {"cpu": 1000, "memory": 10},
        "cpu twice": {"cpu": 2000, "memory": 10},
        "memory thrice": {"cpu": 1000, "memory": 30},
        "too little memory": {"cpu": 5000, "memory": 9},
        "no memory": {"cpu": 5000},
    }
    order = sorted(sizes, key=lambda name: size_fit(sizes[name], excess))
    assert order[:3] == ["exact", "cpu twice", "memory thrice"]
    assert size_fit(sizes["no memory"], excess) == size_fit(None, excess) == (True, 0.0)


@given(used=amounts, excess=amounts)
def test_a_pod_fits_if_no_excess_is_left(used: dict[str, int], excess: dict[str, int]) -> None:
    fits = not size_fit(used, excess)[0]
    assert fits == bool(excess and all(used.get(name, 0) >= amount for name, amount in excess.items()))


def order(*, prefers: bool) -> list[str]:
    """The eviction order on a node that is 500m over its threshold."""
    source = usage({"cpu": 2500}, a={"cpu": 100}, b={"cpu": 900}, c={"cpu": 600}, d={"cpu": 700})
    costs = {"a": "-5", "c": "9"}
    for pod in source.pods:
        cost = costs.get(pod.metadata.name, "0")
        pod.metadata.annotations = {"controller.kubernetes.io/pod-deletion-cost": cost}
        of_class = "koord-batch" if pod.metadata.name == "d" else "koord-prod"
        pod.metadata.labels = {"koordinator.sh/priority-class": of_class}
    policy = replace(Evictions().policy(), prefers_size_fit=prefers)
    return [pod.metadata.name for pod in balancing.in_eviction_order(source.pods, source, False, policy)]


def test_by_default_the_order_is_koordinators() -> None:
    assert order(prefers=False) == ["d", "a", "b", "c"]


def test_with_the_option_size_comes_right_after_the_priority_class() -> None:
    assert order(prefers=True) == ["d", "c", "b", "a"]
