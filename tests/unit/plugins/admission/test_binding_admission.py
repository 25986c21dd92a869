from typing import Any

import pytest
from prometheus_client import REGISTRY

from koordpy.admission.config import AdmissionConfig, build_chains
from koordpy.admission.gates import feature_gates
from koordpy.admission.handler import GroupVersionResource, Handle, Request
from koordpy.admission.handler_entry import HandlerEntry
from koordpy.api.core import Pod
from koordpy.api.meta import ObjectMeta
from koordpy.cluster.cluster import Cluster

from .pods import Rolls

NAME = "validate-pod-binding.BindingAdmission"
DENIAL = "binding denied: username is not in the allowed list"
STRICT = {"userName": "kube-scheduler, koord", "namespaces": "*"}


def decisions() -> dict[str, float]:
    return {
        sample.labels["decision"]: sample.value
        for metric in REGISTRY.collect()
        for sample in metric.samples
        if sample.name == "koord_manager_webhook_binding_admission_decisions_total"
    }


def bind(
    args: dict[str, Any],
    *,
    username: str = "mallory",
    namespace: str = "ns",
    name: str = "pod",
    gate: bool = True,
    metadata: dict[str, Any] | None = None,
    **request: Any,
) -> tuple[str, str]:
    """Return the refusal (or an empty text) and the decision that was counted (or none)."""
    cluster = Cluster()
    cluster.store(Pod).apply(Pod(metadata=ObjectMeta(name="pod", namespace=namespace, **(metadata or {}))))
    handle = Handle(cluster, feature_gates({"BindingAdmissionWebhook": gate}), Rolls())
    config = AdmissionConfig(enabled=[HandlerEntry(name=NAME, args=args)])
    sent: dict[str, Any] = {
        "operation": "CREATE",
        "namespace": namespace,
        "name": name,
        "resource": GroupVersionResource(version="v1", resource="pods"),
        "sub_resource": "binding",
        "raw_user_info": f'{{"username":"{username}"}}'.encode(),
    } | request
    before = decisions()
    response = build_chains(config, handle)["/validate-pod-binding"].admit(Request(**sent), b"no JSON at all")
    assert response.code == (200 if response.allowed else 403)
    counted = [key for key, count in decisions().items() if count != before.get(key, 0)]
    return response.message, "".join(counted)


def test_user_that_is_not_listed_is_refused() -> None:
    assert bind(STRICT) == (DENIAL, "denied")


@pytest.mark.parametrize("username", ["system:kube-scheduler", "system:serviceaccount:s:koord-scheduler"])
def test_user_whose_name_contains_an_item_may_bind(username: str) -> None:
    assert bind(STRICT, username=username) == ("", "allowed_username")


@pytest.mark.parametrize("args", [{}, {"namespaces": "*"}, {"userName": " ,", "namespaces": "*"}])
def test_without_user_names_every_user_may_bind(args: dict[str, str]) -> None:
    assert bind(args) == ("", "")


@pytest.mark.parametrize(
    ("namespaces", "outcome"),
    [
        ("", ("", "")),
        (" ,", ("", "")),
        ("a,ns", (DENIAL, "denied")),
        ("a, b", ("", "out_of_scope")),
        (" *", ("", "out_of_scope")),
    ],
)
def test_namespaces_narrow_the_scope(namespaces: str, outcome: tuple[str, str]) -> None:
    assert bind(STRICT | {"namespaces": namespaces}) == outcome


def test_excluded_namespaces_are_free() -> None:
    assert bind(STRICT, namespace="kube-system") == ("", "excluded_ns")
    assert bind(STRICT | {"excludeNamespaces": "ns"}) == ("", "excluded_ns")
    assert bind(STRICT | {"excludeNamespaces": "*"}) == (DENIAL, "denied")
    assert bind(STRICT | {"excludeNamespaces": ""}, namespace="kube-system") == (DENIAL, "denied")


def test_pod_that_is_not_known_may_be_bound() -> None:
    assert bind(STRICT, name="other") == ("", "")


def test_labels_and_annotations_let_a_pod_pass() -> None:
    bypass = {"koordinator.sh/binding-admission-bypass": "false"}
    assert bind(STRICT, metadata={"labels": bypass}) == ("", "bypass_label")
    assert bind(STRICT, metadata={"annotations": bypass}) == (DENIAL, "denied")
    named = STRICT | {"bypassLabels": "x", "bypassAnnotations": "a,b"}
    assert bind(named, metadata={"labels": bypass}) == (DENIAL, "denied")
    assert bind(named, metadata={"annotations": {"b": ""}}) == ("", "bypass_annotation")


def test_dry_run_only_counts() -> None:
    assert bind(STRICT | {"dryRun": True}) == ("", "dry_run")
    assert bind(STRICT, dry_run=True) == (DENIAL, "denied")


@pytest.mark.parametrize(
    "request_",
    [{"operation": "UPDATE"}, {"sub_resource": ""}, {"resource": GroupVersionResource(resource="services")}],
)
def test_other_requests_pass(request_: dict[str, Any]) -> None:
    assert bind(STRICT, **request_) == ("", "")


def test_gate_switches_it_on() -> None:
    assert bind(STRICT, gate=False) == ("", "")
