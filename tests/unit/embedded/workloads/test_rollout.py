"""The arithmetic of rollouts."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.meta import ObjectMeta
from koordpy.embedded.workloads import rollout
from koordpy.embedded.workloads.objects import Deployment, ReplicaSet


def deployment(
    replicas: int, surge: int | str = "25%", unavailable: int | str = "25%", **spec: Any
) -> Deployment:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return Deployment(spec={"replicas": replicas, "strategy": strategy, **spec})


def rs(name: str, replicas: int, available: int | None = None, **annotations: str) -> ReplicaSet:
    notes = {f"deployment.kubernetes.io/{key}-replicas": value for key, value in annotations.items()}
    meta = ObjectMeta(name=name, creation_timestamp=name, annotations=notes)
    return ReplicaSet(
        metadata=meta,
        spec={"replicas": replicas},
        status={"availableReplicas": replicas if available is None else available},
    )


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (4, 0, 0, (0, 1)),
        (4, 0, "10%", (0, 1)),
        (3, 5, 9, (5, 3)),
    ],
)
def test_limits(replicas: int, surge: int | str, unavailable: int | str, expected: tuple[int, int]) -> None:
    assert rollout.limits(deployment(replicas, surge, unavailable)) == expected


def test_the_new_set_grows_as_far_as_the_surge_allows() -> None:
    new, old = rs("2", 0), rs("1", 10)
    assert rollout.new_size(deployment(10), new, [new, old]) == 3


def test_old_sets_shrink_as_far_as_enough_pods_are_available() -> None:
    new, old = rs("2", 3, available=1), rs("1", 10)
    assert rollout.old_sizes(deployment(10), new, [old]) == {"1": 7}


def test_unhealthy_old_pods_go_first() -> None:
    new, sick, well = rs("3", 3, available=0), rs("1", 4, available=0), rs("2", 6)
    assert rollout.old_sizes(deployment(10), new, [well, sick]) == {"1": 2}


@given(
    st.integers(1, 40),
    st.one_of(st.integers(0, 10), st.sampled_from(["0%", "10%", "25%", "100%"])),
    st.one_of(st.integers(0, 10), st.sampled_from(["0%", "10%", "25%", "100%"])),
    st.lists(st.booleans(), max_size=30),
)
def test_a_rollout_ends_and_stays_within_its_limits(
    replicas: int, surge: int | str, unavailable: int | str, delays: list[bool]
) -> None:
    """Pods of the new set become available at once or, while `delays` says so, later."""
    wanted = deployment(replicas, surge, unavailable)
    more, fewer = rollout.limits(wanted)
    sizes = {"old": replicas, "new": 0}
    ready = 0
    for turn in range(200):
        if not (turn < len(delays) and delays[turn]):
            ready = sizes["new"]
        new, old = rs("new", sizes["new"], ready), rs("old", sizes["old"])
        sizes["new"] = rollout.new_size(wanted, new, [new, old])
        assert sizes["new"] + sizes["old"] <= replicas + more
        new = rs("new", sizes["new"], ready)
        sizes |= rollout.old_sizes(wanted, new, [old])
        assert ready + sizes["old"] >= replicas - fewer
    assert sizes == {"new": replicas, "old": 0}


def test_scaling_during_a_rollout_keeps_the_proportions() -> None:
    new, old = rs("2", 5, desired="10", max="13"), rs("1", 8, desired="10", max="13")
    sizes = rollout.scaled_sizes(deployment(20), new, [old])
    assert sum(sizes.values()) == 25
    assert sizes["1"] > sizes["2"] > 5
