from typing import Any

import pytest

from .pods import container, pod, refusal

QOS = "koordinator.sh/qosClass"
CLASS = "koordinator.sh/priority-class"
SUB_PRIORITY = "koordinator.sh/priority"
IMMUTABLE = "field is immutable"
COMBINATION = "cannot be used in combination"
PRIORITIES = {"": None, "koord-prod": 9500, "koord-mid": 7500, "koord-batch": 5500, "koord-free": 3500}
CPU = container(requests={"cpu": "2"})


def labelled(
    qos: str = "", *containers: dict[str, Any], priority: int | None = None, **spec: Any
) -> dict[str, Any]:
    return pod(*(containers or (CPU,)), labels={QOS: qos} if qos else {}, priority=priority, **spec)


def updated(old: dict[str, Any], new: dict[str, Any], **gates: bool) -> str:
    return refusal(new, gates=gates, operation="UPDATE", oldObject=old)


@pytest.mark.parametrize(
    ("qos", "forbidden"),
    [
        ("BE", {"", "koord-prod"}),
        ("LSR", {"", "koord-mid", "koord-batch", "koord-free"}),
        ("LSE", set()),
        ("LS", set()),
        ("SYSTEM", set()),
        ("", set()),
        ("unknown", set()),
    ],
)
def test_qos_class_and_priority_class_must_go_together(qos: str, forbidden: set[str]) -> None:
    for name, priority in PRIORITIES.items():
        message = f"Pod: Forbidden: {QOS}={qos} and priorityClass={name} {COMBINATION}"
        assert refusal(labelled(qos, priority=priority)) == (message if name in forbidden else "")


@pytest.mark.parametrize("name", ["kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"])
def test_batch_resources_need_qos_be(name: str) -> None:
    resources = container(requests={"cpu": "1", name: "1k"})
    assert refusal(labelled("LS", resources, priority=5500)) == (
        f"labels.{QOS}: Required value: must specify koordinator QoS BE with koordinator colocation resources"
    )
    assert refusal(labelled("BE", resources, priority=5500)) == ""


@pytest.mark.parametrize("name", ["kubernetes.io/mid-cpu", "example.com/foo"])
def test_other_resources_need_no_qos_class(name: str) -> None:
    assert refusal(labelled("", container(requests={name: "1k"}))) == ""


def test_zero_batch_resources_need_no_qos_class() -> None:
    assert refusal(labelled("", container(requests={"kubernetes.io/batch-cpu": "0"}))) == ""


@pytest.mark.parametrize("qos", ["LSR", "LSE"])
@pytest.mark.parametrize(
    ("amounts", "problem"),
    [
        (["2"], ""),
        (["500m", "500m"], ""),
        (["0"], "Required value: LSR Pod must declare the requested CPUs"),
        ([], "Required value: LSR Pod must declare the requested CPUs"),
        (["100m"], 'Invalid value: "100m": the requested CPUs of LSR Pod must be integer'),
        (["1", "1"], ""),
        (["1", "500m"], 'Invalid value: "1500m": the requested CPUs of LSR Pod must be integer'),
    ],
)
def test_pinned_pods_need_whole_cpus(qos: str, amounts: list[str], problem: str) -> None:
    containers = [container(str(index), requests={"cpu": cpu}) for index, cpu in enumerate(amounts)]
    message = f"pod.spec.containers[*].resources.requests: {problem}" if problem else ""
    assert refusal(labelled(qos, *(containers or [container()]), priority=9500)) == message


def test_all_errors_are_reported() -> None:
    assert refusal(labelled("LSR", container(requests={"memory": "1Gi"}))) == (
        f"[Pod: Forbidden: {QOS}=LSR and priorityClass= {COMBINATION}, "
        "pod.spec.containers[*].resources.requests: Required value: LSR Pod must declare the requested CPUs]"
    )


def test_qos_class_is_immutable() -> None:
    message = f'labels.{QOS}: Invalid value: "{{}}": {IMMUTABLE}'
    assert updated(labelled("LS"), labelled("SYSTEM")) == message.format("SYSTEM")
    assert updated(labelled("LS"), labelled()) == message.format("")
    assert updated(labelled("unknown"), labelled()) == ""


def test_priority_class_is_immutable_but_not_its_number() -> None:
    message = f'spec.priority: Invalid value: "{{}}": {IMMUTABLE}'
    assert updated(labelled(priority=9500), labelled(priority=9999)) == ""
    assert updated(labelled(priority=9500), labelled(priority=7500)) == message.format("koord-mid")
    assert updated(labelled(priority=9500), labelled()) == message.format("")


def test_null_priority_class_label_hides_the_number() -> None:
    hidden = labelled(priority=9500) | {"metadata": {"labels": {CLASS: None}}}
    assert updated(hidden, labelled(priority=100)) == ""
    assert "spec.priority" in updated(hidden, labelled(priority=9500))


def test_sub_priority_is_immutable_unless_a_gate_allows_changes() -> None:
    old, new = pod(CPU, labels={SUB_PRIORITY: "1"}), pod(CPU)
    assert updated(old, new) == f'labels.{SUB_PRIORITY}: Invalid value: "": {IMMUTABLE}'
    assert updated(old, new, ColocationProfileSkipValidatingPriority=True) == ""


def test_other_operations_are_checked_without_the_old_object() -> None:
    assert COMBINATION in refusal(labelled("BE"), operation="CONNECT", oldObject=labelled("LS"))


def test_update_needs_an_old_object() -> None:
    assert refusal(pod(), operation="UPDATE") == "there is no content to decode"
    assert "spec" in refusal(pod(), operation="UPDATE", oldObject={"spec": 1})


def test_deletion_without_old_object_is_allowed() -> None:
    assert refusal({}, operation="DELETE", object=None) == ""
    assert refusal({}, operation="DELETE", object=None, oldObject=pod()) == "there is no content to decode"


def test_malformed_pod_is_refused() -> None:
    assert "containers" in refusal(pod() | {"spec": {"containers": 1}})
