"""PreFilter of ElasticQuota after a sequence of events."""

import re
from collections.abc import Mapping
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy_plugins.scheduling.elasticquota.admission import QUOTA_STATE

from .elasticquota_runtime import World, amounts, depends_on_chance, value

EXCEEDED = re.compile(r"(exceedDimensions: \[)([^\]]*)(\])")
AMOUNTS = ("used", "limit", "usedAfterRemove", "usedAfterAdd")


def run(case: dict[str, Any], tag: str | None, *, newest_first: bool = False) -> object:
    world = World(case, newest_first=newest_first)
    plugin, pod, state = world.plugin, decode(Pod, case["pod"]), CycleState()
    nodes = plugin.handle.nodes.all()
    name, tree = plugin.trees.quota_of(pod)
    _, status = plugin.pre_filter(state, pod, nodes)
    answer: dict[str, Any] = {
        "quota": name,
        "tree": tree,
        "code": status.code.label,
        "reason": status.message,
    }
    known = state.read(QUOTA_STATE)
    if known is None or known.skip:
        return answer
    answer |= {"used": amounts(known.used), "limit": amounts(known.used_limit)}
    for key, move, moved in (
        ("usedAfterRemove", plugin.remove_pod, case.get("removed")),
        ("usedAfterAdd", plugin.add_pod, case.get("added")),
    ):
        if moved:
            for each in moved:
                assert move(state, pod, world.pods[each], None).is_success  # type: ignore[arg-type]
            found = state.read(QUOTA_STATE)
            assert found is not None
            answer[key] = amounts(found.used)
    return answer


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    if _normal(ours) == _normal(expected) or not depends_on_chance(case):
        return _normal(ours) == _normal(expected)
    other: Any = run(case, None, newest_first=True)
    return _normal(other) == _normal(expected)


def _normal(answer: Mapping[str, Any]) -> dict[str, Any]:
    shown: dict[str, Any] = {key: value(answer.get(key)) for key in AMOUNTS}
    shown |= {key: answer.get(key) or "" for key in ("quota", "tree", "code")}
    reason = EXCEEDED.sub(
        lambda match: match[1] + " ".join(sorted(match[2].split())) + match[3], answer.get("reason") or ""
    )
    return shown | {"reason": reason}
