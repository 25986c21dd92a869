"""The calls to extenders: which, in which order, with what in them, and what their answers do."""

import asyncio
from typing import Any

import pytest

from tests.integration.scheduler.extender import (
    Extender,
    forever,
    keep,
    keep_all,
    refuse,
    scores,
)
from tests.integration.scheduler.stage import Stage, eventually

NO_SCORES = [{"schedulerName": "default-scheduler", "plugins": {"score": {"disabled": [{"name": "*"}]}}}]
"""Profiles in which only extenders score."""


@pytest.fixture
async def nodes(stage: Stage) -> list[str]:
    """Three equal nodes."""
    names = ["n1", "n2", "n3"]
    for name in names:
        await stage.add_node(name)
    return names


async def test_filter_prioritize_and_bind_come_in_that_order(stage: Stage, nodes: list[str]) -> None:
    async with Extender(filter=keep_all, prioritize=scores(n2=1), bind=stage.bind) as extender:
        await stage.start(extender.entry("filter", "prioritize", "bind"), profiles=NO_SCORES)
        await stage.add_pod("p")
        assert await stage.node_of("p") == "n2"
        assert [verb for verb, _ in extender.calls] == ["filter", "prioritize", "bind"]


async def test_filter_gets_pod_and_node_names(stage: Stage, nodes: list[str]) -> None:
    async with Extender(filter=keep_all) as extender:
        await stage.start(extender.entry("filter"))
        await stage.add_pod("p")
        await stage.node_of("p")
        args = extender.asked("filter")[0]
    assert sorted(args["NodeNames"]) == nodes
    assert args["Nodes"] is None
    assert args["Pod"]["metadata"]["name"] == "p"
    assert args["Pod"]["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m"}


async def test_bind_names_pod_and_node(stage: Stage, nodes: list[str]) -> None:
    async with Extender(bind=stage.bind) as extender:
        await stage.start(extender.entry("bind"))
        await stage.add_pod("p")
        node_name = await stage.node_of("p")
        uid = (await stage.pod("p")).metadata.uid
        expected = {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": node_name}
        assert extender.asked("bind") == [expected]


async def test_extenders_get_only_nodes_that_passed_the_plugins(stage: Stage) -> None:
    await stage.add_node("small", cpu="1")
    await stage.add_node("big", cpu="8")
    async with Extender(filter=keep_all) as extender:
        await stage.start(extender.entry("filter"))
        await stage.add_pod("p", cpu="4")
        assert await stage.node_of("p") == "big"
        assert [args["NodeNames"] for args in extender.asked("filter")] == [["big"]]


async def test_a_single_node_is_not_prioritized(stage: Stage, nodes: list[str]) -> None:
    async with Extender(filter=keep("n3"), prioritize=scores()) as extender:
        await stage.start(extender.entry("filter", "prioritize"))
        await stage.add_pod("p")
        assert await stage.node_of("p") == "n3"
        assert extender.asked("prioritize") == []


async def test_each_extender_sees_what_the_one_before_left(stage: Stage, nodes: list[str]) -> None:
    async with (
        Extender(filter=refuse("first says no", "n1")) as first,
        Extender(filter=refuse("second says no", "n2")) as second,
    ):
        await stage.start(first.entry("filter"), second.entry("filter"))
        await stage.add_pod("p")
        assert await stage.node_of("p") == "n3"
        assert sorted(second.asked("filter")[0]["NodeNames"]) == ["n2", "n3"]


async def test_ignorable_extenders_are_called_last(stage: Stage, nodes: list[str]) -> None:
    async with (
        Extender(filter=refuse("no", "n1")) as optional,
        Extender(filter=refuse("no", "n2")) as needed,
    ):
        await stage.start(optional.entry("filter", ignorable=True), needed.entry("filter"))
        await stage.add_pod("p")
        assert await stage.node_of("p") == "n3"
        assert sorted(needed.asked("filter")[0]["NodeNames"]) == ["n1", "n2", "n3"]
        assert sorted(optional.asked("filter")[0]["NodeNames"]) == ["n1", "n3"]


async def test_reasons_of_extenders_end_in_the_message(stage: Stage, nodes: list[str]) -> None:
    await stage.add_node("small", cpu="1")
    answer = {
        "NodeNames": [],
        "FailedNodes": {"n1": "too hot", "n2": "too hot"},
        "FailedAndUnresolvableNodes": {"n2": "wrong rack", "n3": "wrong rack"},
    }
    async with Extender(filter=lambda _: answer) as extender:
        await stage.start(extender.entry("filter"))
        await stage.add_pod("p", cpu="4")
        message = await stage.refusal("p")
    assert message.startswith("0/4 nodes are available: 1 Insufficient cpu, 1 too hot, 2 wrong rack.")


async def test_a_pod_that_an_extender_refused_is_tried_again_when_another_one_is_placed(
    stage: Stage, nodes: list[str]
) -> None:
    async with Extender(filter=refuse("not yet")) as extender:
        await stage.start(extender.entry("filter"))
        await stage.add_pod("p")
        await stage.refusal("p")
        extender.answers["filter"] = keep_all
        await stage.add_pod("other")
        await stage.node_of("other")
        await stage.node_of("p")


async def test_answers_are_understood_in_any_case(stage: Stage, nodes: list[str]) -> None:
    def best(args: dict[str, Any]) -> Any:
        return [{"host": "n2", "score": 5, "why": "it is mine"}]

    def keeps(_: dict[str, Any]) -> Any:
        return {"nodeNames": ["n2", "n3"], "failedNodes": {"n1": "no"}, "comment": "x"}

    async with Extender(filter=keeps, prioritize=best) as extender:
        await stage.start(extender.entry("filter", "prioritize"), profiles=NO_SCORES)
        await stage.add_pod("p")
        assert await stage.node_of("p") == "n2"


async def test_scores_of_extenders_are_added_by_weight(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.add_node("n2")
    for extender_weight, winner in ((3, "n1"), (7, "n2")):
        async with (
            Extender(prioritize=scores(n1=2, n2=0)) as one,
            Extender(prioritize=scores(n1=0, n2=1)) as two,
        ):
            await stage.start(
                one.entry("prioritize", weight=2),
                two.entry("prioritize", weight=extender_weight),
                profiles=NO_SCORES,
            )
            name = f"p{extender_weight}"
            await stage.add_pod(name)
            assert await stage.node_of(name) == winner
            await stage.stop()


async def test_scores_are_multiplied_by_weight_and_ten_and_added_to_the_plugins(stage: Stage) -> None:
    """NodeAffinity gives n1 100 points at weight 3; the extender's 4 points count 40 times its weight."""
    await stage.add_node("n1")
    await stage.add_node("n2")
    preferred = {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "preference": {
                        "matchExpressions": [
                            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
                        ]
                    },
                }
            ]
        }
    }
    only = {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeAffinity", "weight": 3}]}
    profiles = [{"schedulerName": "default-scheduler", "plugins": {"score": only}}]
    for weight, winner in ((7, "n1"), (8, "n2")):
        async with Extender(prioritize=scores(n2=4)) as extender:
            await stage.start(extender.entry("prioritize", weight=weight), profiles=profiles)
            await stage.add_pod(f"p{weight}", affinity=preferred)
            assert await stage.node_of(f"p{weight}") == winner
            await stage.stop()


async def test_a_failing_prioritize_adds_nothing(stage: Stage, nodes: list[str]) -> None:
    async with (
        Extender(prioritize=lambda _: 500) as broken,
        Extender(prioritize=scores(n3=1)) as working,
    ):
        await stage.start(broken.entry("prioritize"), working.entry("prioritize"), profiles=NO_SCORES)
        await stage.add_pod("p")
        assert await stage.node_of("p") == "n3"


@pytest.mark.parametrize(
    "answer",
    [lambda _: 500, lambda _: {"Error": "out of order"}, lambda _: "nonsense", keep("elsewhere"), forever],
    ids=["status 500", "error", "nonsense", "strange node", "silence"],
)
async def test_a_failing_filter_fails_the_attempt(stage: Stage, nodes: list[str], answer: Any) -> None:
    async with Extender(filter=answer) as extender:
        await stage.start(extender.entry("filter", httpTimeout="1s"))
        await stage.add_pod("p")
        assert await stage.refusal("p", "SchedulerError")
        extender.answers["filter"] = keep_all
        await stage.node_of("p")


async def test_a_failing_filter_that_can_be_ignored_is_skipped(stage: Stage, nodes: list[str]) -> None:
    async with Extender(filter=lambda _: 500) as extender:
        await stage.start(extender.entry("filter", ignorable=True))
        await stage.add_pod("p")
        await stage.node_of("p")
        assert len(extender.asked("filter")) == 1


async def test_an_extender_that_is_not_there_can_be_ignored(stage: Stage, nodes: list[str]) -> None:
    async with Extender() as extender:
        entry = extender.entry("filter", "prioritize", ignorable=True)
    await stage.start(entry)
    await stage.add_pod("p")
    await stage.node_of("p")


async def test_a_refused_bind_frees_the_node_and_is_tried_again(stage: Stage) -> None:
    await stage.add_node("n1", cpu="1")
    refusals = 1

    async def bind(args: dict[str, Any]) -> Any:
        nonlocal refusals
        if refusals:
            refusals -= 1
            return {"Error": "not this time"}
        return await stage.bind(args)

    async with Extender(bind=bind) as extender:
        await stage.start(extender.entry("bind"))
        await stage.add_pod("p", cpu="1")
        assert await stage.refusal("p", "SchedulerError") == "not this time"
        assert await stage.node_of("p") == "n1"
        assert len(extender.asked("bind")) == 2


async def test_a_bind_that_times_out_is_tried_again(stage: Stage, nodes: list[str]) -> None:
    async with Extender(bind=forever) as extender:
        await stage.start(extender.entry("bind", httpTimeout="500ms"))
        await stage.add_pod("p")
        await stage.refusal("p", "SchedulerError")
        extender.answers["bind"] = stage.bind
        await stage.node_of("p")


async def test_without_an_extender_that_can_be_had_the_scheduler_binds_itself(
    stage: Stage, nodes: list[str]
) -> None:
    async with Extender(bind=lambda _: 500) as extender:
        await stage.start(extender.entry("bind", ignorable=True))
        await stage.add_pod("p")
        await stage.node_of("p")


async def test_held_binds_do_not_stop_other_pods(stage: Stage, nodes: list[str]) -> None:
    everybody = asyncio.Event()

    async def bind(args: dict[str, Any]) -> Any:
        if args["PodName"].startswith("gang"):
            await everybody.wait()
        return await stage.bind(args)

    async with Extender(filter=keep_all, prioritize=scores(), bind=bind) as extender:
        await stage.start(extender.entry("filter", "prioritize"), extender.entry("bind", httpTimeout="600s"))
        for i in range(20):
            await stage.add_pod(f"gang-{i}")
        await eventually(lambda: len(extender.asked("bind")) == 20)
        for i in range(10):
            await stage.add_pod(f"single-{i}")
        for i in range(10):
            await stage.node_of(f"single-{i}")
        assert not any(p.spec.node_name for p in await stage.pods() if p.metadata.name.startswith("gang"))
        everybody.set()
        await stage.all_bound(30)


async def test_what_held_binds_have_taken_is_not_given_away(stage: Stage) -> None:
    await stage.add_node("n1", cpu="2")
    released = asyncio.Event()

    async def bind(args: dict[str, Any]) -> Any:
        if args["PodName"] == "held":
            await released.wait()
        return await stage.bind(args)

    async with Extender(bind=bind) as extender:
        await stage.start(extender.entry("bind"))
        await stage.add_pod("held", cpu="1500m")
        await eventually(lambda: len(extender.asked("bind")) == 1)
        await stage.add_pod("other", cpu="1")
        assert "Insufficient cpu" in await stage.refusal("other")
        released.set()
        assert await stage.node_of("held") == "n1"


async def test_a_restart_while_binds_are_held_binds_every_pod_once(stage: Stage, nodes: list[str]) -> None:
    bound: list[str] = []

    async def bind(args: dict[str, Any]) -> Any:
        answer = await stage.bind(args)
        if not answer["Error"]:
            bound.append(args["PodUID"])
        return answer

    async with Extender(filter=keep_all, bind=forever) as extender:
        entries = [extender.entry("filter"), extender.entry("bind", httpTimeout="600s")]
        await stage.start(*entries)
        for i in range(20):
            await stage.add_pod(f"p{i}")
        await eventually(lambda: len(extender.asked("bind")) == 20)
        await stage.stop()
        extender.answers["bind"] = bind
        await stage.start(*entries)
        pods = await stage.all_bound(20)
    assert sorted(bound) == sorted(pod.metadata.uid for pod in pods)


async def test_without_a_node_cache_whole_nodes_are_sent(stage: Stage, nodes: list[str]) -> None:
    def keeps(args: dict[str, Any]) -> Any:
        items = [node for node in args["Nodes"]["items"] if node["metadata"]["name"] != "n1"]
        return {"Nodes": {"metadata": {}, "items": items}, "NodeNames": None, "FailedNodes": {}}

    def ranks(args: dict[str, Any]) -> Any:
        names = [node["metadata"]["name"] for node in args["Nodes"]["items"]]
        return [{"Host": name, "Score": int(name == "n3")} for name in names]

    async with Extender(filter=keeps, prioritize=ranks) as extender:
        await stage.start(extender.entry("filter", "prioritize", nodeCacheCapable=False), profiles=NO_SCORES)
        await stage.add_pod("p")
        assert await stage.node_of("p") == "n3"
        args = extender.asked("filter")[0]
    assert args["NodeNames"] is None
    sent = {node["metadata"]["name"]: node for node in args["Nodes"]["items"]}
    assert sent["n1"]["metadata"]["labels"] == {"kubernetes.io/hostname": "n1"}
    assert sent["n1"]["status"]["allocatable"]["cpu"] == "8"


async def test_managed_resources_choose_the_pods_that_concern_an_extender(stage: Stage) -> None:
    await stage.add_node("n1", example_com__widget="4")
    async with Extender(filter=keep_all) as extender:
        managed = [{"name": "example.com/widget"}]
        await stage.start(extender.entry("filter", managedResources=managed))
        await stage.add_pod("plain")
        await stage.add_pod("widget", limits={"example.com/widget": "1"})
        await stage.all_bound(2)
        assert [args["Pod"]["metadata"]["name"] for args in extender.asked("filter")] == ["widget"]


async def test_resources_ignored_by_the_scheduler_are_the_extenders_affair(stage: Stage) -> None:
    await stage.add_node("n1")
    async with Extender(filter=keep_all) as extender:
        managed = [{"name": "example.com/widget", "ignoredByScheduler": True}]
        await stage.start(extender.entry("filter", managedResources=managed))
        await stage.add_pod("p", limits={"example.com/widget": "1"})
        assert await stage.node_of("p") == "n1"
