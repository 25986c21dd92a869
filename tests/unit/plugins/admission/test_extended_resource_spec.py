import json
from typing import Any

import pytest

from .pods import BATCH, container, handle, mutated, pod, profile, respond

KEY = "node.koordinator.sh/extended-resource-spec"
BOTH = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "1Gi"}


def annotation(document: dict[str, Any]) -> str | None:
    found: str | None = document["metadata"].get("annotations", {}).get(KEY)
    return found


def test_batch_resources_of_containers_are_written_sorted_and_compact() -> None:
    out = mutated(
        pod(
            container("b", limits=BOTH, requests=BOTH | {"example.com/foo": "1"}),
            container("a", requests={"kubernetes.io/batch-cpu": "1000"}),
            container("none", requests={"cpu": "1"}),
            initContainers=[container("init", requests=BOTH)],
        )
    )
    assert annotation(out) == (
        '{"containers":{"a":{"requests":{"kubernetes.io/batch-cpu":"1k"}},'
        '"b":{"limits":{"kubernetes.io/batch-cpu":"500","kubernetes.io/batch-memory":"1Gi"},'
        '"requests":{"kubernetes.io/batch-cpu":"500","kubernetes.io/batch-memory":"1Gi"}}}}'
    )


def test_translated_resources_are_written() -> None:
    out = mutated(pod(container(limits={"cpu": "1", "memory": "4Gi"}), labels=BATCH), profile())
    amounts = {"kubernetes.io/batch-cpu": "1k", "kubernetes.io/batch-memory": "4Gi"}
    assert json.loads(annotation(out) or "") == {
        "containers": {"main": {"limits": amounts, "requests": amounts}}
    }


def test_gate_switches_it_off() -> None:
    assert annotation(mutated(pod(container(requests=BOTH)), DisableExtendedResourceSpec=True)) is None


@pytest.mark.parametrize("text", ["{}", "null", '{"containers":null}', '{"other": 1}'])
def test_pod_without_batch_resources_keeps_an_empty_annotation(text: str) -> None:
    assert annotation(mutated(pod(annotations={KEY: text}))) == text


@pytest.mark.parametrize("text", ['{"containers":{}}', '{"containers":{"gone":{}}}'])
def test_stale_annotation_is_emptied(text: str) -> None:
    assert annotation(mutated(pod(annotations={KEY: text}))) == "{}"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"containers":{"a":{"limits":{"x":"lots"}}}}', '"a"'])
def test_malformed_annotation_refuses_the_pod(text: str) -> None:
    status = respond(pod(annotations={KEY: text}), handle())["status"]
    assert status["code"] == 500
    assert status["message"].startswith("failed to get current extended resource spec, err: ")


def told(limits: str, requests: str) -> str:
    return (
        '{ "containers": {"main": {"limits": {"kubernetes.io/batch-cpu": '
        + limits
        + '}, "requests": {"kubernetes.io/batch-cpu": '
        + requests
        + "}}}}"
    )


@pytest.mark.parametrize(
    ("amount", "text", "kept"),
    [
        ("1k", '"1k"', True),
        ("1000", '"1000"', True),
        ("1000", "1000", True),
        ("500", '"500"', True),
        ("1k", '"1000"', False),
        ("1000", '"1k"', False),
    ],
)
def test_annotation_of_the_same_form_keeps_its_text(amount: str, text: str, kept: bool) -> None:
    amounts = {"kubernetes.io/batch-cpu": amount}
    written = told(text, text)
    out = mutated(pod(container(limits=amounts, requests=amounts), annotations={KEY: written}))
    assert (annotation(out) == written) is kept


@pytest.mark.parametrize(("cpu", "text", "kept"), [("1", '"1000"', True), ("500m", '"500"', False)])
def test_computed_amount_never_has_a_kept_text(cpu: str, text: str, kept: bool) -> None:
    amounts = {"cpu": cpu}
    written = told(text, text)
    out = mutated(
        pod(container(limits=amounts, requests=amounts), labels=BATCH, annotations={KEY: written}), profile()
    )
    assert (annotation(out) == written) is kept


def test_container_with_only_requests_is_always_rewritten() -> None:
    written = '{"containers": {"main": {"requests": {"kubernetes.io/batch-cpu": "500"}}}}'
    out = mutated(pod(container(requests={"kubernetes.io/batch-cpu": "500"}), annotations={KEY: written}))
    assert annotation(out) == written.replace(" ", "")


def test_profile_patch_makes_amounts_keep_their_canonical_text() -> None:
    amounts = {"kubernetes.io/batch-cpu": "1000"}
    submitted = pod(container(limits=amounts, requests=amounts), annotations={KEY: told('"1k"', '"1k"')})
    patched = mutated(submitted, profile(patch={"metadata": {"labels": {"l": "1"}}}))
    assert annotation(patched) == told('"1k"', '"1k"')
