from typing import Any

import pytest

from .pods import container, handle, mutated, pod, respond

GPU = "koordinator.sh/gpu"
CORE = "koordinator.sh/gpu-core"
MEMORY = "koordinator.sh/gpu-memory"
RATIO = "koordinator.sh/gpu-memory-ratio"
SHARED = "koordinator.sh/gpu.shared"


def resources(*, requests: dict[str, str] | None, limits: dict[str, str] | None) -> dict[str, Any]:
    lists: dict[str, Any] = {"requests": requests, "limits": limits}
    out = mutated(pod(container(**{name: amounts for name, amounts in lists.items() if amounts is not None})))
    found: dict[str, Any] = out["spec"]["containers"][0]["resources"]
    return found


def rewritten(amounts: dict[str, str]) -> dict[str, str]:
    """Return the requests of a container that asks for these amounts; its limits must be the same."""
    found = resources(requests=amounts, limits=amounts)
    assert found["requests"] == found["limits"]
    requests: dict[str, str] = found["requests"]
    return requests


@pytest.mark.parametrize(
    ("gpu", "percent", "shares"),
    [("1", "1", "1"), ("70", "70", "1"), ("100", "100", "1"), ("150", "150", "1"), ("200", "200", "2")],
)
def test_gpu_becomes_cores_memory_ratio_and_shares(gpu: str, percent: str, shares: str) -> None:
    assert rewritten({GPU: gpu, "cpu": "1"}) == {"cpu": "1", CORE: percent, RATIO: percent, SHARED: shares}


@pytest.mark.parametrize(
    ("amounts", "shares"),
    [
        ({CORE: "300"}, "3"),
        ({RATIO: "200", CORE: "50"}, "2"),
        ({RATIO: "50", CORE: "200"}, "1"),
        ({RATIO: "150"}, "1"),
        ({MEMORY: "8Gi"}, "1"),
        ({CORE: "100k"}, "1k"),
    ],
)
def test_parts_of_gpus_get_a_number_of_shares(amounts: dict[str, str], shares: str) -> None:
    assert rewritten(amounts) == amounts | {SHARED: shares}


def test_explicit_shares_stay() -> None:
    assert rewritten({CORE: "400", SHARED: "2"}) == {CORE: "400", SHARED: "2"}


def test_amount_that_is_there_in_other_words_keeps_them() -> None:
    assert rewritten({GPU: "1000", CORE: "1000"})[CORE] == "1000"


def test_missing_list_is_made() -> None:
    assert resources(requests=None, limits={MEMORY: "8Gi"}) == {
        "limits": {MEMORY: "8Gi", SHARED: "1"},
        "requests": {SHARED: "1"},
    }


def test_gpu_in_limits_only_is_not_split() -> None:
    assert resources(requests={}, limits={GPU: "200"}) == {
        "limits": {GPU: "200", SHARED: "1"},
        "requests": {SHARED: "1"},
    }


def test_containers_without_gpus_and_init_containers_stay() -> None:
    submitted = pod(
        container(requests={"cpu": "1"}), {"name": "bare"}, initContainers=[container(requests={GPU: "100"})]
    )
    assert mutated(submitted) == submitted


def test_gate_switches_it_off() -> None:
    submitted = pod(container(requests={GPU: "100"}))
    assert mutated(submitted, DisableDeviceResourceSpec=True) == submitted


def admitted_template(template: dict[str, Any], **gates: Any) -> Any:
    """Return the template of a Reservation as the webhook leaves it."""
    document = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Reservation",
        "metadata": {"name": "r"},
        "spec": {"owners": [], "template": template},
    }
    to = handle(ReservationMutatingWebhook=True, **gates)
    resource = {"resource": "reservations"}
    answer = respond(document, to, "/mutate-reservation", resource=resource, namespace="")
    assert answer["allowed"], answer
    return answer["object"]["spec"]["template"]


def test_templates_are_rewritten_as_pods_where_their_gate_says_so() -> None:
    template = {"spec": {"containers": [container(requests={GPU: "200"}), container(requests={"cpu": "1"})]}}
    first, second = admitted_template(template, ReservationDeviceResourceSpec=True)["spec"]["containers"]
    assert first["resources"]["requests"] == {CORE: "200", RATIO: "200", SHARED: "2"}
    assert second == template["spec"]["containers"][1]


def test_templates_are_left_alone_without_the_gate() -> None:
    template = {"spec": {"containers": [container(requests={GPU: "50"})]}}
    assert admitted_template(template) == template


def test_a_template_without_a_spec_is_left_alone() -> None:
    assert admitted_template({"metadata": {}}, ReservationDeviceResourceSpec=True) == {"metadata": {}}
