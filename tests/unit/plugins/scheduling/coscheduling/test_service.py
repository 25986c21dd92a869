import pytest

from .gang_world import GangWorld, member


def test_a_gang_is_described_with_koordinators_names() -> None:
    world = GangWorld()
    world.put(member("a"), member("b", node="n1"))
    endpoints = world.plugin.endpoints()
    found = endpoints["gang/{namespace}/{name}"](namespace="ns", name="g")
    assert found == {
        "name": "ns/g",
        "waitTime": 600_000_000_000,
        "createTime": "0001-01-01T00:00:00Z",
        "mode": "Strict",
        "gangMatchPolicy": "once-satisfied",
        "minRequiredNumber": 2,
        "totalChildrenNum": 2,
        "gangGroup": ["ns/g"],
        "children": {"ns/a": {}, "ns/b": {}},
        "pendingChildren": {"ns/a": {}},
        "waitingForBindChildren": {},
        "boundChildren": {"ns/b": {}},
        "onceResourceSatisfied": True,
        "gangGroupInfo": {
            "Initialized": True,
            "GangGroupId": "ns/g",
            "GangGroup": ["ns/g"],
            "OnceResourceSatisfied": True,
            "WaitingGangIDs": {},
            "RepresentativePodKey": "",
            "BindingMemberPods": None,
        },
        "gangFrom": "GangFromPodAnnotation",
        "hasGangInit": True,
    }
    assert endpoints["gangs"]() == {"ns/g": found}


def test_an_unknown_gang_is_not_found() -> None:
    with pytest.raises(LookupError, match="cannot find gang ns/g"):
        GangWorld().plugin.endpoints()["gang/{namespace}/{name}"](namespace="ns", name="g")
