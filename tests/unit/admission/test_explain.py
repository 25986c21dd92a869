import random
from typing import Any

from koordpy.admission.config import AdmissionConfig, build_chains
from koordpy.admission.explain import AdmissionExplanation, explain, feed
from koordpy.admission.gates import feature_gates
from koordpy.admission.handler import Handle
from koordpy.cluster.cluster import Cluster

PROFILES = [
    {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": name},
        "spec": spec,
    }
    for name, spec in {
        "batch": {"selector": {"matchLabels": {"app": "spark"}}, "qosClass": "BE", "schedulerName": "k"},
        "never": {"probability": 0, "schedulerName": "never"},
        "other": {"selector": {"matchLabels": {"app": "web"}}, "qosClass": "LS"},
    }.items()
]
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"app": "spark"}},
    "spec": {
        "schedulerName": "default",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
    },
}


def handle(**gates: bool) -> Handle:
    return Handle(Cluster(), feature_gates(gates), random.Random(1))


def explained(documents: list[dict[str, Any]], to: Handle) -> AdmissionExplanation:
    """Explain the one pod among documents, in a cluster that the others are added to."""
    [pod] = feed(to.cluster, documents)
    return explain(build_chains(AdmissionConfig(), to)["/mutate-pod"], pod)


def test_every_profile_has_the_reason_why_it_applied_or_not() -> None:
    told = explained([{"kind": "List", "items": [*PROFILES, POD]}], handle())
    assert [(rule.subject, rule.applied, rule.reason) for rule in told.rules] == [
        ("other", False, "selector 'app=web' does not match the labels"),
        ("batch", True, "selector 'app=spark' matches"),
        ("never", False, "selects everything; probability 0: skipped"),
        ("resource translation", True, "the pod's priority class is koord-batch"),
    ]


def test_every_change_has_its_cause() -> None:
    told = explained([*PROFILES, POD], handle())
    changes = [(change.cause, change.path, change.before, change.after) for change in told.changes]
    assert changes[:2] == [
        ("ClusterColocationProfile batch: schedulerName", "/spec/schedulerName", "default", "k"),
        ("ClusterColocationProfile batch: qosClass", "/metadata/labels/koordinator.sh~1qosClass", None, "BE"),
    ]
    requests = "/spec/containers/0/resources/requests"
    assert {
        ("resource translation, priority class koord-batch", f"{requests}/cpu", "1"),
        ("resource translation, priority class koord-batch", f"{requests}/kubernetes.io~1batch-cpu", None),
    } == {(cause, path, before) for cause, path, before, _ in changes[2:4]}
    assert changes[4][:2] == ("ExtendedResourceSpec", "/metadata/annotations")
    assert told.result is not None
    assert told.result["spec"]["schedulerName"] == "k"
    assert {operation["path"] for operation in told.patch} >= {"/spec/schedulerName"}


def test_refusal_shows_the_verdict_and_no_patch() -> None:
    broken = {
        "apiVersion": "config.koordinator.sh/v1alpha1",
        "kind": "ClusterColocationProfile",
        "metadata": {"name": "z"},
        "spec": {"priorityClassName": "gone"},
    }
    told = explained([*PROFILES, broken, POD], handle())
    assert (told.allowed, told.code, told.patch, told.result) == (False, 500, [], None)
    assert "gone" in told.message
    assert told.changes


def test_explanation_is_json() -> None:
    told = explained([*PROFILES, POD], handle())
    assert '"namespace":"default"' in told.model_dump_json()
