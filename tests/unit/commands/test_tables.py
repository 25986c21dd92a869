"""Tables of gangs and quotas on terminals of different widths."""

import io
from typing import Any

import pytest
from rich.console import Console

from koordpy.commands import gang, quota


def printed(width: int, show: Any, found: Any) -> list[str]:
    out = io.StringIO()
    show(Console(file=out, width=width, color_system=None), found)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def a_gang(name: str, state: str, failed: str = "", **more: Any) -> dict[str, Any]:
    size = {"members": 3, "bound": 0, "waiting": 0, "planned": 0, "gated": 0, "pending": 3, "needed": 0}
    return {
        "gang": name,
        "state": state,
        "minMember": 3,
        "mode": "Strict",
        "matchPolicy": "once-satisfied",
        "size": size,
        "failedMember": failed,
        "failure": "2 of 3 pods fit; " * 8 if failed else "",
        "group": [],
        "writtenAs": "pods",
        "totalMembers": 3,
        "waitSeconds": 600.0,
        "members": [],
        **more,
    }


GANGS = [
    a_gang("default/training-of-a-model", "pending", "default/training-of-a-model-2"),
    a_gang("default/train", "unknown"),
]


def resource(name: str, **more: Any) -> dict[str, Any]:
    return {
        "resource": name,
        "used": "1536Mi",
        "runtime": "2304Mi",
        "min": "12Gi",
        "scaledMin": "1152Mi",
        "max": "no limit",
        "request": "38200m",
        "usedPercent": 67.0,
        "overUsed": "",
        "borrowed": "",
        "lent": "5888Mi",
        **more,
    }


TREE = {
    "limitedBy": "runtime",
    "checksParents": False,
    "quotas": [
        {
            "name": "koordinator-default-quota",
            "depth": 0,
            "tree": "",
            "lends": True,
            "resources": [resource("cpu"), resource("memory")],
        }
    ],
}


@pytest.mark.parametrize(("show", "found"), [(gang.show_list, GANGS), (quota.show_tree, TREE)])
@pytest.mark.parametrize("width", [80, 120, 200])
def test_nothing_but_the_last_column_is_wrapped_and_nothing_is_cut(width: int, show: Any, found: Any) -> None:
    lines = printed(width, show, found)
    assert max(map(len, lines)) <= width
    assert "…" not in "".join(lines)


def test_a_narrow_terminal_shows_fewer_columns() -> None:
    [narrow, *_] = printed(80, gang.show_list, GANGS)
    [wide, *_] = printed(200, gang.show_list, GANGS)
    assert narrow.split() == ["GANG", "STATE", "MIN", "PODS", "BOUND", "WAITS", "FOR"]
    assert set(narrow.split()) < set(wide.split())
    [head, first, *_] = printed(80, quota.show_tree, TREE)
    assert head.split() == ["QUOTA", "RESOURCE", "USED", "RUNTIME", "MIN", "MAX", "%"]
    assert "12Gi no limit 67 lends" in " ".join(first.split())
    assert "12Gi (now 1152Mi)" in "".join(printed(200, quota.show_tree, TREE))


def test_reasons_are_not_repeated_for_each_pod_of_a_gang() -> None:
    others = "2 of 3 pods fit; pod default/t-2 does not"
    states = {"default/t-0": others, "default/t-1": others, "default/t-2": "no node"}
    members: list[dict[str, Any]] = [
        {"pod": name, "state": "pending", "node": "", "secondsLeft": None, "message": message, "gates": []}
        for name, message in states.items()
    ]
    found = a_gang("default/t", "pending", "default/t-2", failure="no node", members=members)
    whys = [line.split(maxsplit=2)[2] for line in printed(120, gang.show_gang, found)[-3:]]
    assert whys == [others, "as default/t-0", "as above"]
