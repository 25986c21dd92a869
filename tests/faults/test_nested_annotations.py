"""JSON in annotations that nests without end, and text that is not UTF-8: refused in a sentence."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from koordpy.api import extension
from tests.integration.service.stage import pod_document, review_of, serving
from tests.servers.caller import Caller

ANNOTATIONS = sorted(
    {value for name, value in vars(extension).items() if name.startswith("ANNOTATION_") and "/" in value}
)
NESTED = {
    "lists": "[" * 50_000 + "]" * 50_000,
    "objects": '{"containers":' * 15_000 + "1" + "}" * 15_000,
    "within": '{"containers":' * 450 + "{}" + "}" * 450,
    "extensions": '{"extensions":' * 450 + "{}" + "}" * 450,
}


def annotated(annotation: str, text: str) -> dict[str, Any]:
    return pod_document("nested", uid="uid-nested", annotations={annotation: text})


@pytest.mark.parametrize("shape", NESTED)
async def test_nested_annotations_are_no_failure_of_the_webhooks(tmp_path: Path, shape: str) -> None:
    async with serving(tmp_path, parts=["admission"]) as stage:
        for annotation in ANNOTATIONS:
            for path in ("/mutate-pod", "/validate-pod"):
                review = review_of(annotated(annotation, NESTED[shape]))
                answer = await stage.http.post(stage.url("admission") + path, json=review)
                response = answer.json()["response"]
                status = response.get("status") or {}
                assert response["allowed"] or status["message"], annotation
                assert "panic" not in status.get("message", "")


@pytest.mark.parametrize("shape", NESTED)
async def test_nested_annotations_are_no_failure_of_the_extender(
    tmp_path: Path, shape: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, parts=["extender"]) as stage:
        await stage.add_node("n0")
        await stage.add_node("n1")
        for annotation in ANNOTATIONS:
            body = {"Pod": annotated(annotation, NESTED[shape]), "NodeNames": ["n0", "n1"]}
            for verb in ("filter", "prioritize"):
                answer = await stage.http.post(stage.url("extender") + f"/extender/{verb}", json=body)
                assert answer.status_code == 200, (annotation, answer.text)
    broken = [record for record in caplog.records if record.exc_info and record.levelno >= logging.ERROR]
    assert broken == []


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
@pytest.mark.parametrize("where", ["names", "pod", "node"])
async def test_text_that_is_not_utf_8_is_a_bad_request(tmp_path: Path, verb: str, where: str) -> None:
    pod = json.dumps(pod_document("p", uid="uid-p")).encode()
    node = b'{"metadata":{"name":"n0"}}'
    names = b'["n0","n1"]'
    if where == "names":
        names = b'["n0","n\xff1"]'
    elif where == "pod":
        pod = pod.replace(b'"default"', b'"def\xffault"')
    else:
        node = node.replace(b"n0", b"n\xc3")
    bodies = {
        "filter": b'{"Pod":%b,"NodeNames":%b}' % (pod, names),
        "prioritize": b'{"Pod":%b,"NodeNames":%b}' % (pod, names),
        "preempt": b'{"Pod":%b,"NodeNameToMetaVictims":{"n\xff":{"Pods":[]}}}' % pod,
        "bind": b'{"PodName":"p\xff","PodNamespace":"d","PodUID":"u","Node":"n0"}',
    }
    if where == "node":
        bodies |= dict.fromkeys(("filter", "prioritize"), b'{"Pod":%b,"Nodes":{"items":[%b]}}' % (pod, node))
    async with serving(tmp_path, parts=["extender"]) as stage:
        await stage.add_node("n0")
        async with Caller(stage.url("extender")) as caller:
            answer = await caller.post(f"/extender/{verb}", bodies[verb])
        assert answer.status == 400, answer.body
        assert json.loads(answer.body)["Error"]
