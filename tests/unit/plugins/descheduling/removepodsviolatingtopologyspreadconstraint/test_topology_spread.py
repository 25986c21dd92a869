"""RemovePodsViolatingTopologySpreadConstraint; whole runs are compared with the descheduler's in the parity
tests."""

from typing import Any

from koordpy_plugins.descheduling.removepodsviolatingtopologyspreadconstraint.plugin import (
    RemovePodsViolatingTopologySpreadConstraint,
)

from ..one_plugin import OnePlugin, node, pod

ARGS = {"constraints": ["DoNotSchedule"]}


def spread(name: str, node_name: str, cpu: str = "1", **constraint: Any) -> dict[str, Any]:
    document = pod(name, node_name, cpu, app="a")
    usual = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    document["spec"]["topologySpreadConstraints"] = [usual | constraint]
    return document


def profile(nodes: list[dict[str, Any]], pods: list[dict[str, Any]], **args: Any) -> OnePlugin:
    return OnePlugin(RemovePodsViolatingTopologySpreadConstraint, nodes, pods, args)


NODES = [node("n1", zone="x"), node("n2", zone="y")]


async def test_pods_leave_a_domain_that_has_too_many():
    run = profile(NODES, [spread(f"p{index}", "n1") for index in range(4)])
    await run.cycle()
    assert len(run.evicted) == 2
    assert {reason for _, reason in run.calls} == {
        "the pods of its topology spread constraint by zone differ by 4, maxSkew is 1"
    }


async def test_nothing_leaves_within_the_skew():
    run = profile(NODES, [spread(f"p{index}", "n1", maxSkew=4) for index in range(4)])
    await run.cycle()
    assert run.evicted == []


async def test_only_the_listed_kinds_of_constraints_count():
    pods = [spread(f"p{index}", "n1", whenUnsatisfiable="ScheduleAnyway") for index in range(4)]
    for constraints, evicted in ((["DoNotSchedule"], 0), (["ScheduleAnyway"], 2), ([], 0)):
        run = profile(NODES, pods, constraints=constraints)
        await run.cycle()
        assert len(run.evicted) == evicted


async def test_pods_that_fit_no_smaller_domain_stay_unless_that_is_switched_off():
    pods = [spread("p0", "n1", "3"), spread("p1", "n1", "3"), pod("full", "n2", "2")]
    run = profile(NODES, pods)
    current = run.decisions.begin(run.clock.now(), dry_run=False)
    await run.cycle()
    assert run.evicted == []
    assert [(item.pod, item.reason) for item in current.runs[0].not_evicted] == [
        ("a/p1", "it fits no other node of a domain below the average")
    ]
    run = profile(NODES, pods, topologyBalanceNodeFit=False)
    await run.cycle()
    assert run.evicted == ["p1"]


async def test_match_label_keys_separate_versions():
    pods = [spread(f"p{index}", "n1", matchLabelKeys=["version"]) for index in range(4)]
    for index, document in enumerate(pods):
        document["metadata"]["labels"]["version"] = str(index % 2)
    run = profile(NODES, pods)
    await run.cycle()
    versions = {name: str(int(name[1]) % 2) for name in run.evicted}
    assert sorted(versions.values()) == ["0", "1"], "one of two pods of each version"


async def test_nodes_that_the_pods_cannot_use_are_no_domain():
    pods = [spread(f"p{index}", "n1") for index in range(4)]
    for document in pods:
        document["spec"]["nodeSelector"] = {"zone": "x"}
    run = profile(NODES, pods)
    await run.cycle()
    assert run.evicted == []
    for document in pods:
        document["spec"]["topologySpreadConstraints"][0]["nodeAffinityPolicy"] = "Ignore"
    run = profile(NODES, pods, topologyBalanceNodeFit=False)
    await run.cycle()
    assert len(run.evicted) == 2


async def test_it_objects_to_nodes_of_domains_that_would_have_too_many():
    run = profile(NODES, [spread("p0", "n1"), spread("p1", "n1"), spread("p2", "n2")])
    assert run.objection("p2", "n1") == (
        "the pods of the topology spread constraint by zone would differ by 3, maxSkew is 1"
    )
    assert run.objection("p2", "n2") is None
    assert run.objection("p0", "n2") is None
    assert run.objection("p0", "n1") is None
