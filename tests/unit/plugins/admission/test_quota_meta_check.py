"""Pods and the quotas that they name."""

from typing import Any

import pytest

from ....parity.rules.admission_review import ask, chain_of

PREFIX = "quota.scheduling.koordinator.sh/"


def quota(name: str, *, namespace: str = "q", is_parent: bool = True, bound: str = "[]") -> dict[str, Any]:
    return {
        "kind": "ElasticQuota",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {f"{PREFIX}is-parent": str(is_parent).lower()},
            "annotations": {f"{PREFIX}namespaces": bound},
        },
    }


def pod(**labels: str) -> dict[str, Any]:
    own = {f"{PREFIX}{name}": value for name, value in labels.items()}
    return {"metadata": {"name": "p", "namespace": "n1", "labels": own}, "spec": {"containers": []}}


def judge(new: dict[str, Any], *quotas: dict[str, Any], old: Any = None, **gates: bool) -> str:
    request = {
        "uid": "u",
        "operation": "UPDATE" if old else "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "object": new,
        "oldObject": old,
    }
    return str(ask(chain_of("/validate-pod", list(quotas), gates), request).get("message", ""))


REFUSED = "pod can not be linked to a parentQuotaGroup,quota:{}, pod:p"


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (quota("a"), "a"),
        (quota("n1", namespace="n1"), "n1"),
        (quota("b", bound='["n1"]'), "b"),
    ],
)
def test_pod_of_a_parent_quota_is_refused(found: dict[str, Any], name: str) -> None:
    sent = pod(name="a") if name == "a" else pod()
    assert judge(sent, found) == REFUSED.format(name)
    assert judge(sent, found, SupportParentQuotaSubmitPod=True) == ""


def test_pod_of_a_leaf_the_default_or_an_unknown_quota_passes() -> None:
    assert judge(pod(name="a"), quota("a", is_parent=False)) == ""
    assert judge(pod(), quota("koordinator-default-quota")) == ""
    assert judge(pod(name="x"), quota("a", bound='["n1"]')) == ""


def test_label_alone_counts_without_a_default_quota() -> None:
    assert judge(pod(), quota("b", bound='["n1"]'), DisableDefaultQuota=True) == ""


def test_preemptible_label_stays() -> None:
    changed = "Preemptible label is forbidden modify now."
    assert judge(pod(preemptible="false"), old=pod(), SupportParentQuotaSubmitPod=True) == changed
    assert judge(pod(preemptible=""), old=pod()) == ""
