from typing import Any

import pytest

from koordpy.api import qos
from koordpy.api.core import Pod
from koordpy.api.qos import PriorityClass, QoSClass
from koordpy.api.scheme import decode

BOTH = {"cpu": "1", "memory": "1Gi"}


def pod(
    *containers: dict[str, Any], labels: dict[str, str] | None = None, status: str = "", **spec: Any
) -> Pod:
    listed = [{"name": f"c{i}", "resources": each} for i, each in enumerate(containers)]
    document = {"metadata": {"labels": labels or {}}, "spec": {"containers": listed, **spec}}
    return decode(Pod, document | {"status": {"qosClass": status}})


GUARANTEED = {"requests": BOTH, "limits": BOTH}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pod({}), "BestEffort"),
        (pod({"requests": {"cpu": "0", "foo": "1"}}), "BestEffort"),
        (pod({"requests": {"cpu": "1"}}), "Burstable"),
        (pod({"limits": BOTH}), "Burstable"),
        (pod(GUARANTEED), "Guaranteed"),
        (pod(GUARANTEED, {}), "Burstable"),
        (pod({"requests": BOTH, "limits": {"cpu": "1000m", "memory": "1024Mi"}}), "Guaranteed"),
        (pod(GUARANTEED, initContainers=[{"name": "i"}]), "Burstable"),
        (pod(GUARANTEED, resources={}), "BestEffort"),
        (pod({}, resources=GUARANTEED), "Guaranteed"),
    ],
)
def test_kubernetes_qos(given: Pod, expected: str) -> None:
    assert qos.computed_kube_qos(given) == expected


@pytest.mark.parametrize(
    ("given", "raw", "qos_class"),
    [
        (pod(labels={"koordinator.sh/qosClass": "LSE"}), QoSClass.LSE, QoSClass.LSE),
        (pod(labels={"koordinator.sh/qosClass": "lse"}), QoSClass.NONE, QoSClass.BE),
        (pod(GUARANTEED), QoSClass.NONE, QoSClass.LSR),
        (pod({"requests": {"cpu": "1"}}), QoSClass.NONE, QoSClass.LS),
        (pod(GUARANTEED, status="BestEffort"), QoSClass.NONE, QoSClass.BE),
        (pod(GUARANTEED, status="Odd"), QoSClass.NONE, QoSClass.NONE),
    ],
)
def test_koordinator_qos(given: Pod, raw: QoSClass, qos_class: QoSClass) -> None:
    assert qos.qos_class_raw(given) is raw
    assert qos.qos_class(given) is qos_class


@pytest.mark.parametrize(
    ("given", "raw", "priority_class", "value"),
    [
        (pod(priority=9000), PriorityClass.PROD, PriorityClass.PROD, 9000),
        (pod(priority=7999), PriorityClass.MID, PriorityClass.MID, 7999),
        (pod(priority=3000), PriorityClass.FREE, PriorityClass.FREE, 3000),
        (pod(GUARANTEED, priority=10000), PriorityClass.NONE, PriorityClass.PROD, 10000),
        (pod(), PriorityClass.NONE, PriorityClass.BATCH, 5500),
        (
            pod(labels={"koordinator.sh/priority-class": "koord-mid"}),
            PriorityClass.MID,
            PriorityClass.MID,
            7500,
        ),
        (
            pod(GUARANTEED, labels={"koordinator.sh/priority-class": "x"}, priority=5000),
            PriorityClass.NONE,
            PriorityClass.PROD,
            5000,
        ),
        (pod(priority=0, status="Odd"), PriorityClass.NONE, PriorityClass.NONE, 0),
    ],
)
def test_koordinator_priority(
    given: Pod, raw: PriorityClass, priority_class: PriorityClass, value: int
) -> None:
    assert qos.priority_class_raw(given) is raw
    assert qos.priority_class(given) is priority_class
    assert qos.priority_value(given) == value


@pytest.mark.parametrize(
    ("label", "number"), [("", 0), ("5", 5), ("-1", -1), ("0x10", 16), ("010", 8), ("1_0", 10)]
)
def test_sub_priority_label(label: str, number: int) -> None:
    assert qos.sub_priority(pod(labels={"koordinator.sh/priority": label})) == number


def test_a_sub_priority_that_is_no_integer_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"koordinator\.sh/priority='high'"):
        qos.sub_priority(pod(labels={"koordinator.sh/priority": "high"}))


@pytest.mark.parametrize(
    ("priority_class", "cpu", "gpu"),
    [
        (PriorityClass.PROD, "cpu", "nvidia.com/gpu"),
        (PriorityClass.NONE, "cpu", "nvidia.com/gpu"),
        (PriorityClass.BATCH, "kubernetes.io/batch-cpu", ""),
        (PriorityClass.MID, "kubernetes.io/mid-cpu", ""),
        (PriorityClass.FREE, "", ""),
    ],
)
def test_resources_have_other_names_in_lower_classes(
    priority_class: PriorityClass, cpu: str, gpu: str
) -> None:
    assert qos.translate_resource(priority_class, "cpu") == cpu
    assert qos.translate_resource(priority_class, "nvidia.com/gpu") == gpu
