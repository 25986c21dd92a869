"""One pod on a small cluster, with kube-scheduler's default profile as far as its plugins are built.

Lines in which a plugin that is not built can refuse a node do not belong to it; of the other lines the filter
outcome and the scores of the plugins that are built are compared.
"""

from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.args import API_VERSION
from koordpy.scheduling.config import KIND, read
from koordpy.scheduling.framework import Framework
from koordpy.scheduling.handle import Handle
from koordpy.scheduling.registry import DEFAULT_PLUGINS, Place, build, installed
from koordpy.scheduling.status import Status

BUILT = (
    "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
    "NodeResourcesBalancedAllocation", "ImageLocality",
)  # fmt: skip
NOT_COMPARED = {"PodTopologySpread", "InterPodAffinity"}
WEIGHTS = {ref.name: ref.weight for ref in DEFAULT_PLUGINS}


def accepts(tag: str | None, case: dict[str, Any]) -> bool:
    spec = case["pod"]["spec"]
    terms = [
        (case["pod"], "podAffinity"),
        (case["pod"], "podAntiAffinity"),
        *((pod, "podAntiAffinity") for pod in [*case.get("pods", ()), *case.get("nominated", ())]),
    ]
    constraints = list(spec.get("topologySpreadConstraints") or ())
    args = (case.get("args") or {}).get("PodTopologySpread") or {}
    constraints.extend(args.get("defaultConstraints") or ())
    return not any(
        ((pod["spec"].get("affinity") or {}).get(kind) or {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution"
        )
        for pod, kind in terms
    ) and all(item.get("whenUnsatisfiable") == "ScheduleAnyway" for item in constraints)


def framework(case: dict[str, Any]) -> Framework:
    cluster = Cluster()
    table = cluster.nodes
    assert len(table) == 0
    config = read(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "profiles": [
                {
                    "plugins": {
                        "multiPoint": {
                            "enabled": [{"name": name, "weight": WEIGHTS[name]} for name in BUILT],
                            "disabled": [{"name": "*"}],
                        }
                    },
                    "pluginConfig": [
                        {"name": name, "args": args}
                        for name, args in (case.get("args") or {}).items()
                        if name in BUILT
                    ],
                }
            ],
        }
    )
    profiles = build(config, lambda _: Handle(cluster), place=Place.EXTENDER, classes=installed())
    for node in case["nodes"]:
        cluster.store(Node).apply(decode(Node, node))
    for pod in [*case.get("pods", ()), *case.get("nominated", ())]:
        cluster.store(Pod).apply(decode(Pod, pod))
    return profiles.frameworks["default-scheduler"]


def run(case: dict[str, Any], tag: str | None) -> object:
    fw = framework(case)
    pod = decode(Pod, case["pod"])
    state = fw.new_state()
    nodes = fw.handle.nodes.all()
    outcome = fw.find_feasible(state, pod, nodes)
    if outcome.error is not None or not outcome.prefilter.is_success:
        return {"prefilter": _answer(outcome.error or outcome.prefilter)}
    answers: dict[str, dict[str, Any]] = {}
    for status, names in outcome.failed():
        answers.update((name, _answer(status)) for name in names)
    kept = outcome.kept
    result: dict[str, Any] = {"nodes": answers}
    answers.update((name, {"ok": True}) for name in kept.names)
    if len(kept):
        scores, status = fw.run_score(state, pod, kept)
        if scores is None:
            result["scoreError"] = {"phase": "PreScore", "code": int(status.code)}
        else:
            for index, name in enumerate(kept.names):
                answers[name]["scores"] = {
                    plugin: int(values[index]) for plugin, values in scores.by_plugin.items()
                }
    return result


def _answer(status: Status) -> dict[str, Any]:
    return {"code": int(status.code), "plugin": status.plugin, "reasons": sorted(status.reasons)}


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    return bool(ours == _comparable(expected))


def _comparable(expected: dict[str, Any]) -> dict[str, Any]:
    if "prefilter" in expected:
        answer = expected["prefilter"]
        return {"prefilter": {**answer, "reasons": sorted(answer["reasons"])}}
    nodes = {}
    for name, answer in expected["nodes"].items():
        if answer.get("ok"):
            nodes[name] = {"ok": True}
            if "scores" in answer:
                nodes[name]["scores"] = {
                    plugin: score for plugin, score in answer["scores"].items() if plugin not in NOT_COMPARED
                }
        else:
            nodes[name] = {**answer, "reasons": sorted(answer["reasons"])}
    result: dict[str, Any] = {"nodes": nodes}
    if "scoreError" in expected:
        error = expected["scoreError"]
        result["scoreError"] = {"phase": error["phase"], "code": error["code"]}
    return result
