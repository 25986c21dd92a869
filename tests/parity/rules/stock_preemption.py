"""Which pods DefaultPreemption would evict for a pod that fits nowhere, and on which node."""

from typing import Any

from koordpy.api.core import Namespace, Node, Pod, PodDisruptionBudget
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.preemption.choice import least_loss, loss
from koordpy.scheduling.profiles.config import KIND, read
from koordpy.scheduling.profiles.registry import Place, build, installed
from koordpy_plugins.scheduling.stock.defaultpreemption.plugin import DefaultPreemption

OBJECTS: dict[str, type[KubeObject]] = {
    "nodes": Node,
    "pods": Pod,
    "nominated": Pod,
    "namespaces": Namespace,
    "pdbs": PodDisruptionBudget,
}


def framework(case: dict[str, Any]) -> Framework:
    """kube-scheduler's default profile, as the scheduler itself."""
    cluster = Cluster()
    assert len(cluster.nodes) == 0
    config = read(
        {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"schedulerName": "default-scheduler"}]}
    )
    profiles = build(
        config, lambda _: Handle(cluster), place=Place.SCHEDULER, classes=installed(), skip_missing=True
    )
    for field, type_ in OBJECTS.items():
        for document in case.get(field, ()):
            cluster.store(type_).apply(decode(type_, document))
    return profiles.frameworks["default-scheduler"]


def run(case: dict[str, Any], tag: str | None) -> object:
    fw = framework(case)
    pod = decode(Pod, case["pod"])
    state = fw.new_state()
    outcome = fw.find_feasible(state, pod, fw.handle.nodes.all())
    plugin = next(plugin for plugin in fw.plugins if isinstance(plugin, DefaultPreemption))
    evaluator = plugin.evaluator
    reason = evaluator.ineligible(pod, outcome)
    if reason:
        return {"eligible": False, "reason": reason}
    answer: dict[str, Any] = {"eligible": True, "potential": sorted(evaluator.potential(outcome).names)}
    if not answer["potential"]:
        return {**answer, "chosen": []}
    findings = evaluator.find(state, pod, outcome)
    answer["candidates"] = {
        name: {"victims": [p.metadata.key for p in victims.pods], "pdbViolations": victims.pdb_violations}
        for name, victims in findings.candidates.items()
    }
    answer["failed"] = {
        name: {"code": int(status.code), "plugin": status.plugin, "reasons": sorted(status.reasons)}
        for name, status in findings.refused.items()
    }
    now = fw.handle.clock.now()
    chosen = least_loss(findings.candidates, now)
    losses = {name: loss(victims, now) for name, victims in findings.candidates.items()}
    answer["chosen"] = sorted(name for name, value in losses.items() if value == losses[chosen])
    return answer


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    for failure in expected.get("failed", {}).values():
        failure["reasons"] = sorted(failure["reasons"])
    return bool(ours == expected)
