"""Which pods are evaluated against which quota. Everything here is a dry run: no API server is needed."""

from typing import Any

import pytest

from koordpy.admission.config import AdmissionConfig, build_chains
from koordpy.admission.handler_entry import HandlerEntry
from koordpy.api.config_model import ConfigError
from koordpy_plugins.admission.quota_evaluate.args import EvaluateQuotaArgs

from .pods import container, handle, pod, refusal, respond

PREFIX = "quota.scheduling.koordinator.sh/"
ON: Any = {"EnableQuotaAdmission": True}
ON_UPDATE: Any = {**ON, "EnableQuotaAdmissionOnUpdate": True}
REPLACING: Any = {**ON, "ElasticQuotaEvaluationTransformPod": True, "ReplaceResourcesTransformer": True}
FULL = "exceeded quota: {}, requested: cpu=2, used: , limited: cpu=1"


def quota(
    name: str = "q", namespace: str = "ns", maximum: Any = None, *, bound: str = "[]", parent: bool = False
) -> dict[str, Any]:
    return {
        "kind": "ElasticQuota",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {f"{PREFIX}is-parent": str(parent).lower()},
            "annotations": {f"{PREFIX}namespaces": bound},
        },
        "spec": {"max": maximum or {"cpu": "1"}},
    }


def big(name: str | None = "q", **spec: Any) -> dict[str, Any]:
    """Return a pod that wants two cpus."""
    labels = {f"{PREFIX}name": name} if name is not None else {}
    return pod(container(requests={"cpu": "2"}), labels=labels, **spec)


def judge(sent: dict[str, Any], *quotas: dict[str, Any], gates: Any = ON, **request: Any) -> str:
    return refusal(sent, *quotas, gates=gates, dryRun=True, **request)


def test_without_the_gate_nothing_is_evaluated() -> None:
    assert judge(big(), quota(), gates={}) == ""
    chain = build_chains(AdmissionConfig(), handle())["/validate-pod"]
    assert not chain.waits


def test_pod_that_its_quota_has_no_room_for_is_refused() -> None:
    assert judge(big(), quota()) == FULL.format("ns/q")
    assert judge(big(), quota(maximum={"cpu": "2"})) == ""


@pytest.mark.parametrize(
    "found", [quota("ns"), quota("b", bound='["ns"]'), quota("b", namespace="x", bound='["other","ns"]')]
)
def test_quota_of_the_namespace_counts(found: dict[str, Any]) -> None:
    meta = found["metadata"]
    assert judge(big(None), found) == FULL.format(f"{meta['namespace']}/{meta['name']}")


@pytest.mark.parametrize(
    "name",
    [None, "koordinator-default-quota", "koordinator-system-quota", "koordinator-root-quota"],
)
def test_reserved_quotas_take_every_pod(name: str | None) -> None:
    assert judge(big(name), quota(name or "koordinator-default-quota")) == ""


def test_without_default_quota_only_labelled_pods_are_evaluated() -> None:
    gates = {**ON, "DisableDefaultQuota": True}
    assert judge(big(None), quota("b", bound='["ns"]'), gates=gates) == ""
    assert judge(big(), quota(), gates=gates) == FULL.format("ns/q")


def test_quota_must_exist_once() -> None:
    assert judge(big("nope")) == "elastic quota nope not found"
    assert judge(big(), quota(), quota(namespace="other")) == "more than one elastic quota q found"


def test_parent_quotas_take_pods_only_where_that_is_allowed() -> None:
    assert judge(big(), quota(parent=True)).startswith("pod can not be linked to a parentQuotaGroup")
    gates = {**ON, "SupportParentQuotaSubmitPod": True}
    assert judge(big(), quota(parent=True), gates=gates) == FULL.format("ns/q")


@pytest.mark.parametrize(
    ("old", "gates", "message"),
    [
        ("q", ON_UPDATE, ""),
        ("other", ON, ""),
        ("other", ON_UPDATE, FULL.format("ns/q")),
        (None, ON_UPDATE, FULL.format("ns/q")),
    ],
)
def test_update_is_evaluated_when_it_moves_the_pod(old: str | None, gates: Any, message: str) -> None:
    assert judge(big(), quota(), gates=gates, operation="UPDATE", oldObject=big(old)) == message


@pytest.mark.parametrize("operation", ["CONNECT", ""])
def test_other_operations_pass(operation: str) -> None:
    assert judge(big(), quota(), operation=operation) == ""


def replacing(wanted: str, **requests: str) -> dict[str, Any]:
    annotations = {"pod.koordinator.sh/replace-resources": wanted}
    return pod(container(requests=requests), labels={f"{PREFIX}name": "q"}, annotations=annotations)


@pytest.mark.parametrize(
    ("gates", "message"),
    [
        (REPLACING, "exceeded quota: ns/q, requested: example.io/cpu=2k, used: , limited: example.io/cpu=1k"),
        (ON, "exceeded quota: ns/q, requested: memory=1Gi, used: , limited: memory=0"),
        (
            {**ON, "ElasticQuotaEvaluationTransformPod": True},
            "exceeded quota: ns/q, requested: memory=1Gi, used: , limited: memory=0",
        ),
        (
            {**ON, "ReplaceResourcesTransformer": True},
            "exceeded quota: ns/q, requested: memory=1Gi, used: , limited: memory=0",
        ),
    ],
)
def test_replaced_resources_count_where_both_gates_are_on(gates: Any, message: str) -> None:
    sent = replacing("cpu:example.io/cpu,memory:", cpu="2", memory="1Gi")
    assert judge(sent, quota(maximum={"memory": "0", "example.io/cpu": "1k"}), gates=gates) == message


def test_later_checks_see_replaced_resources() -> None:
    whole, shared = "koordinator.sh/gpu", "koordinator.sh/gpu.shared"
    sent = replacing(f"{shared}:", **{whole: "100", shared: "1"})
    gates = {**REPLACING, "ValidatePodDeviceResource": True}
    assert judge(sent, quota(maximum={"memory": "1"}), gates=gates) == ""
    assert "GPU and GPU share at same time" in judge(sent, gates={**gates, "EnableQuotaAdmission": False})


def test_pods_that_have_ended_pass() -> None:
    ended = big() | {"status": {"phase": "Succeeded"}}
    assert judge(ended, quota()) == ""


def test_without_api_server_only_dry_runs_are_decided() -> None:
    response = respond(big(), handle(quota(maximum={"cpu": "9"}), **ON), "/validate-pod", dryRun=True)
    assert response["allowed"]
    status = respond(big(), handle(quota(maximum={"cpu": "9"}), **ON), "/validate-pod")["status"]
    assert status["code"] == 500
    assert "quota ns/q cannot be charged: there is no API server to write to" in status["message"]


def test_arguments_are_koord_managers_flags() -> None:
    assert EvaluateQuotaArgs().model_dump(by_alias=True, mode="json") == {
        "maxRetries": 3,
        "retryJitter": "0s",
        "maxTotalJitter": "1s",
        "conflictFreshGet": False,
    }
    entry = HandlerEntry(
        name="validate-pod.EvaluateQuota",
        args={
            "maxRetries": 10,
            "retryJitter": "20ms",
            "maxTotalJitter": "500ms",
            "conflictFreshGet": True,
        },
    )
    chain = build_chains(AdmissionConfig(enabled=[entry]), handle(**ON))["/validate-pod"]
    (args,) = [item.args for item in chain.handlers if item.name == "EvaluateQuota"]
    assert args.model_dump(by_alias=True) == entry.args
    wrong = HandlerEntry(name=entry.name, args={"retryJitter": 5})
    with pytest.raises(ConfigError, match=r"args\.retryJitter"):
        build_chains(AdmissionConfig(enabled=[wrong]), handle(**ON))


def test_evaluation_stands_between_quota_meta_check_and_device_resource() -> None:
    gates: Any = {**ON, "ValidatePodDeviceResource": True}
    names = [item.name for item in build_chains(AdmissionConfig(), handle(**gates))["/validate-pod"].handlers]
    at = names.index("EvaluateQuota")
    assert (names[at - 1], names[at + 1]) == ("QuotaMetaCheck", "DeviceResource")
