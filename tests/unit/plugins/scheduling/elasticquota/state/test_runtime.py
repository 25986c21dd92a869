"""What quotas request and may use, on examples of Koordinator's own tests; amounts are CPUs."""

import pytest

from koordpy.api.quota.info import DEFAULT, ROOT

from ..quota_world import World


def runtime(world: World, *names: str) -> list[str]:
    """Return the runtime of quotas, refreshed one after the other."""
    return [str((world.trees.refresh_runtime(name) or {}).get("cpu")) for name in names]


def listed(world: World, field: str, *names: str) -> list[str]:
    found = []
    for name in names:
        info = world.trees.quota(name)
        assert info is not None
        found.append(str(getattr(info, field).get("cpu", "-")))
    return found


def test_minimums_that_exceed_the_total_are_scaled_path_by_path_and_grow_back() -> None:
    world = World()
    world.node("n1", 200)
    world.quota("p", least=300, most=1000, is_parent="true")
    for name in ("a", "b", "c"):
        world.quota(name, "p", least=100, most=1000)
        world.pod(name, name, 200)
    assert runtime(world, "p") == ["200"]
    assert runtime(world, "a", "b", "c")[0] == "66666m"
    assert runtime(world, "a", "b", "c") == ["66667m", "66667m", "66666m"]
    assert listed(world, "auto_scale_min", "a", "b", "c") == ["66666m"] * 3
    world.node("n1", 600)
    runtime(world, "a", "b", "c")
    assert runtime(world, "p", "a", "b", "c") == ["600", "200", "200", "200"]
    assert listed(world, "auto_scale_min", "p", "a") == ["300", "100"]


def test_minimums_are_handed_out_in_full_where_they_are_not_scaled() -> None:
    world = World({"enableMinQuotaScale": False})
    world.node("n1", 200)
    world.quota("p", least=300, most=1000, is_parent="true")
    for name in ("a", "b", "c"):
        world.quota(name, "p", least=100, most=1000)
        world.pod(name, name, 200)
    assert runtime(world, "p", "a", "b", "c") == ["300", "100", "100", "100"]


@pytest.mark.parametrize(("pods", "above"), [(10, "10"), (25, "25"), (55, "30")])
def test_ancestors_request_what_the_maximum_of_a_child_lets_through(pods: int, above: str) -> None:
    world = World()
    world.node("n1", 96)
    world.quota("top", least=80, most=96, is_parent="true")
    world.quota("mid", "top", least=50, most=60, is_parent="true")
    world.quota("leaf", "mid", least=20, most=30)
    world.pod("p", "leaf", pods)
    assert listed(world, "request", "leaf", "mid", "top", ROOT) == [str(pods), above, above, above]
    assert runtime(world, "leaf") == [above]


def test_a_lower_maximum_lowers_what_ancestors_request_and_a_higher_one_restores_it() -> None:
    world = World()
    world.node("n1", 96)
    world.quota("top", least=50, most=96, is_parent="true")
    world.quota("leaf", "top", least=20, most=96)
    world.pod("p", "leaf", 96)
    world.quota("leaf", "top", least=20, most=64)
    assert listed(world, "request", "leaf", "top", ROOT) == ["96", "64", "64"]
    assert runtime(world, "leaf") == ["64"]
    world.quota("leaf", "top", least=20, most=100)
    assert listed(world, "request", "leaf", "top", ROOT) == ["96", "96", "96"]


def test_a_child_gets_no_more_than_its_parent_has_whatever_its_maximum() -> None:
    world = World()
    world.node("n1", 350)
    world.quota("top", least=176, most=300, is_parent="true")
    world.quota("sub", "top", least=100, most=500)
    world.pod("p", "sub", 400)
    assert listed(world, "request", "top", ROOT) == ["400", "300"]
    assert runtime(world, "sub") == ["300"]
    world.pod("q", "sub", 400)
    assert listed(world, "request", "top", ROOT) == ["500", "300"]
    assert runtime(world, "sub") == ["300"]


@pytest.mark.parametrize(
    ("lends", "idle", "forty", "sixty"),
    [
        (("false", "false", "false"), "60 20 20", "60 40 20", "80 60 20"),
        (("true", "false", "true"), "20 20 0", "40 40 0", "60 60 0"),
        (("true", "false", "false"), "40 20 20", "60 40 20", "80 60 20"),
    ],
)
def test_quotas_that_do_not_lend_keep_their_minimum(
    lends: tuple[str, str, str], idle: str, forty: str, sixty: str
) -> None:
    world = World({"enableMinQuotaScale": False})
    world.node("n1", 100)
    world.quota("root", least=60, most=96, is_parent="true", allow_lent_resource=lends[0])
    for name, each in zip(("one", "two"), lends[1:], strict=True):
        world.quota(name, "root", least=20, most=96, allow_lent_resource=each)
    names = ("root", "one", "two")
    runtime(world, *names)
    assert runtime(world, *names) == idle.split()
    world.pod("p1", "one", 40)
    runtime(world, *names)
    assert runtime(world, *names) == forty.split()
    world.pod("p2", "one", 20)
    runtime(world, *names)
    assert runtime(world, *names) == sixty.split()


@pytest.mark.parametrize(
    ("bound", "requested", "allocated", "guaranteed", "above"),
    [
        (5, "10", "5", "10", ("15", "20")),
        (15, "15", "15", "15", ("20", "20")),
        (25, "25", "25", "25", ("30", "30")),
    ],
)
def test_what_is_used_is_guaranteed_up_the_tree(
    bound: int, requested: str, allocated: str, guaranteed: str, above: tuple[str, str]
) -> None:
    world = World(ElasticQuotaGuaranteeUsage=True)
    world.node("n1", 50)
    world.quota("q1", least=20, most=40, is_parent="true")
    world.quota("q2", "q1", least=10, most=40)
    world.quota("q3", "q1", least=5, most=40)
    world.pod("p", "q2", bound, node="n1")
    assert listed(world, "request", "q2") == [requested]
    assert listed(world, "allocated", "q2", "q1") == [allocated, above[0]]
    assert listed(world, "guaranteed", "q2", "q1") == [guaranteed, above[1]]
    if bound == 25:
        assert runtime(world, "q1", "q2", "q3") == ["30", "25", "5"]


def test_what_the_default_quota_uses_is_not_distributed_and_its_weight_counts_as_in_koordinator() -> None:
    world = World()
    world.node("n1", 100)
    most = {"cpu": "1844674407370955161"}
    world.quota(DEFAULT, most=int(most["cpu"]))
    for name in ("q1", "q2"):
        world.quota(name, least=10, most=100)
        world.pod(name, name, 60)
    world.pod("p", "", 30, node="n1")
    [manager] = world.trees.managers
    assert (str(manager.total["cpu"]), str(manager.distributable["cpu"])) == ("100", "70")
    assert runtime(world, "q1", "q2") == ["35075m", "35075m"]


def test_minimums_of_two_levels_are_scaled_along_the_path() -> None:
    world = World()
    world.node("n1", 50)
    world.quota("P1", least=60, most=100, is_parent="true")
    world.quota("P2", least=40, most=100)
    world.quota("P1a", "P1", least=40, most=100)
    world.quota("P1b", "P1", least=20, most=100)
    for name, cpu in (("P1a", 50), ("P1b", 50), ("P2", 10)):
        world.pod(name.lower(), name, cpu)
    assert runtime(world, "P1a", "P1b", "P2") == ["26666m", "13333m", "10"]
    assert listed(world, "auto_scale_min", "P2") == ["20"]
    assert runtime(world, "P1a") == ["26667m"]


def test_parents_with_pods_of_their_own_request_them_besides_their_childrens() -> None:
    world = World()
    world.quota("q1", most=40, is_parent="true")
    world.quota("q2", "q1", most=30, is_parent="true")
    world.quota("q4", "q2", most=10)
    world.quota("q3", "q1", most=20)
    for name in ("q2", "q3", "q4"):
        world.pod(name, name, 20)
    assert listed(world, "request", "q4", "q2", "q3", "q1") == ["20", "30", "20", "50"]
    assert listed(world, "self_request", "q2", "q1") == ["20", "-"]


def test_a_quota_that_moves_takes_along_what_it_requests_and_uses() -> None:
    world = World()
    world.node("n1", 96)
    for name in ("t1", "t2"):
        world.quota(name, most=96, is_parent="true")
    world.quota("a", "t1", most=96)
    world.quota("b", "t2", most=96)
    world.pod("pa", "a", 60, node="n1")
    world.pod("pb", "b", 20, node="n1")
    assert runtime(world, "a", "b") == ["60", "20"]
    world.quota("a", "t2", most=96)
    assert runtime(world, "t1", "t2", "a") == ["0", "80", "60"]
    assert listed(world, "used", "t2", "a") == ["80", "60"]
    assert listed(world, "request", "t2", "a") == ["80", "60"]
    assert all(amount in ("0", "-") for amount in listed(world, "used", "t1"))


def test_pods_of_a_deleted_or_unknown_quota_count_in_the_default_one_until_there_is_one() -> None:
    world = World()
    world.node("n1", 10)
    world.quota("a")
    world.pod("p1", "a", 2, node="n1")
    world.pod("p2", "later", 3, node="n1")
    assert (world.used("a"), world.used(DEFAULT)) == ("2", "3")
    world.quota("later")
    assert (world.used("later"), world.used(DEFAULT)) == ("3", "0")
    world.cluster.store(type(world.quota("a"))).discard("quotas/a")
    assert world.trees.quota("a") is None
    assert world.used(DEFAULT) == "2"


def test_an_unknown_quota_has_no_runtime_and_the_root_has_what_is_distributed() -> None:
    world = World()
    world.node("n1", 10)
    world.quota("a", least=1)
    assert world.trees.refresh_runtime("unknown") is None
    assert runtime(world, ROOT) == ["10"]


def test_the_root_of_a_tree_takes_its_total_from_the_default_tree() -> None:
    world = World(MultiQuotaTree=True)
    world.node("n1", 300)

    def root(cpu: int, ignored: str = "false") -> None:
        total = {"total-resource": f'{{"cpu":"{cpu}"}}'}
        world.quota(
            "root", notes=total, is_root="true", tree_id="t", is_parent="true", ignore_default_tree=ignored
        )

    def totals() -> list[str]:
        return [str(manager.total["cpu"]) for manager in world.trees.managers]

    root(200)
    assert totals() == ["100", "200"]
    root(250)
    assert totals() == ["50", "250"]
    root(250, ignored="true")
    assert totals() == ["300", "250"]
    world.cluster.store(type(world.quota("a"))).discard("quotas/root")
    assert totals() == ["300"]
