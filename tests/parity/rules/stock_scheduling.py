"""One pod on a small cluster, with kube-scheduler's default profile: who refuses it where, and all scores."""

from typing import Any

from koordpy.api.core import (
    Namespace,
    Node,
    Pod,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.profiles.config import KIND, read
from koordpy.scheduling.profiles.registry import Place, build, installed

OWNERS: tuple[type[KubeObject], ...] = (ReplicaSet, ReplicationController, StatefulSet)


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
                    "pluginConfig": [
                        {"name": name, "args": args} for name, args in (case.get("args") or {}).items()
                    ]
                }
            ],
        }
    )
    profiles = build(
        config, lambda _: Handle(cluster), place=Place.SCHEDULER, classes=installed(), skip_missing=True
    )
    for namespace in case.get("namespaces") or ():
        cluster.store(Namespace).apply(decode(Namespace, namespace))
    for service in case.get("services") or ():
        cluster.store(Service).apply(decode(Service, service))
    for owner in case.get("owners") or ():
        type_ = next(type_ for type_ in OWNERS if type_.__name__ == owner["kind"])
        cluster.store(type_).apply(decode(type_, owner))
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
                answers[name]["total"] = int(scores.total[index])
    return result


def _answer(status: Status) -> dict[str, Any]:
    return {"code": int(status.code), "plugin": status.plugin, "reasons": list(status.reasons)}


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    return bool(_comparable(ours) == _comparable(expected))


def _comparable(outcome: dict[str, Any]) -> dict[str, Any]:
    """What must be equal: not the order of reasons, nor the texts of Go's parse errors."""
    result = dict(outcome)
    if "prefilter" in outcome:
        result["prefilter"] = _refusal(outcome["prefilter"], read="InterPodAffinity")
    if "nodes" in outcome:
        result["nodes"] = {
            name: answer if answer.get("ok") else _refusal(answer)
            for name, answer in outcome["nodes"].items()
        }
    if "scoreError" in outcome:
        error = outcome["scoreError"]
        result["scoreError"] = {"phase": error["phase"], "code": error["code"]}
    return result


def _refusal(answer: dict[str, Any], read: str = "") -> dict[str, Any]:
    if answer["code"] == Code.ERROR or answer["plugin"] == read:
        return {"code": answer["code"], "plugin": answer["plugin"]}
    return {**answer, "reasons": sorted(answer["reasons"])}
