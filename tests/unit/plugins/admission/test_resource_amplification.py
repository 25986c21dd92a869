"""Amplified allocatable resources of nodes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.quantity import parse
from koordpy_plugins.admission.resource_amplification.amplification import amplify

from ....parity.rules.admission_review import ask, chain_of

RATIO = "node.koordinator.sh/resource-amplification-ratio"
RAW = "node.koordinator.sh/raw-allocatable"


def node(annotations: dict[str, str] | None = None, **allocatable: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "annotations": annotations or {}},
        "status": {"allocatable": allocatable},
    }


def update(new: dict[str, Any], old: dict[str, Any], **request: Any) -> dict[str, Any]:
    chain = chain_of("/mutate-node-status", [], {"NodeMutatingWebhook": True})
    return ask(
        chain,
        {
            "uid": "u",
            "operation": "UPDATE",
            "resource": {"group": "", "version": "v1", "resource": "nodes"},
            "subResource": "status",
            "object": new,
            "oldObject": old,
        }
        | request,
    )


def test_new_report_is_kept_and_amplified() -> None:
    after = update(node({RATIO: '{"cpu":1.5}'}, cpu="2", memory="1Gi"), node(cpu="1"))["object"]
    assert after["metadata"]["annotations"][RAW] == '{"cpu":"2","memory":"1Gi"}'
    assert after["status"]["allocatable"] == {"cpu": "3", "memory": "1Gi"}


def test_update_of_others_keeps_the_report() -> None:
    kept = {RATIO: '{"cpu":2}', RAW: '{"cpu":"1"}'}
    after = update(node(kept, cpu="1500m"), node(kept, cpu="1500m"))["object"]
    assert after["metadata"]["annotations"] == kept
    assert after["status"]["allocatable"] == {"cpu": "2"}


def test_report_is_forgotten_without_a_ratio() -> None:
    after = update(node({RAW: "{}"}, cpu="1"), node(cpu="1"))["object"]
    assert "annotations" not in after["metadata"]


@pytest.mark.parametrize("ratio", ['{"cpu":1}', '{"cpu":0.5}', '{"pods":2}', '{"cpu":null}'])
def test_ratio_that_amplifies_nothing_leaves_allocatable(ratio: str) -> None:
    after = update(node({RATIO: ratio}, cpu="1"), node(cpu="1"))["object"]
    assert after["status"]["allocatable"] == {"cpu": "1"}
    assert json.loads(after["metadata"]["annotations"][RAW]) == {"cpu": "1"}


@pytest.mark.parametrize(
    ("annotations", "problem"),
    [({RATIO: "1"}, "amplification ratio"), ({RATIO: '{"cpu":2}', RAW: ""}, "raw allocatable")],
)
def test_malformed_annotation_is_an_error_of_the_webhook(annotations: dict[str, str], problem: str) -> None:
    answer = update(node(annotations, cpu="1"), node(cpu="1"))
    assert (answer["allowed"], answer["code"]) == (False, 500)
    assert problem in answer["message"]


def test_only_status_updates_are_handled() -> None:
    broken = node({RATIO: "1"}, cpu="1")
    assert update(broken, broken, subResource="")["allowed"]
    assert update(broken, broken, operation="CREATE")["allowed"]


def test_update_without_old_object_is_refused() -> None:
    assert update(node(), node(), oldObject=None)["message"] == "there is no content to decode"


@given(st.integers(0, 10**9), st.floats(1.0, 100.0))
def test_amplified_amount_is_never_less_than_reported(milli: int, ratio: float) -> None:
    raw = {"cpu": parse(f"{milli}m")}
    amplified = amplify(raw, {"cpu": ratio}).get("cpu", raw["cpu"])
    assert raw["cpu"] <= amplified
    assert amplified.milli_value() <= milli * ratio
