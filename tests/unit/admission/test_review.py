import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.admission.chain import Chain
from koordpy.admission.handler import Denied, Errored
from koordpy.admission.review import MAX_BODY, review

from .reviews import POD, ask, body, mutating

UNTOUCHED = Chain("/mutate-pod", [])


def test_allowed_without_changes_has_no_patch() -> None:
    assert ask(UNTOUCHED, body()) == {"uid": "u1", "allowed": True, "status": {"code": 200}}


def test_edits_become_a_json_patch() -> None:
    chain = Chain("/mutate-pod", [mutating(lambda _, pod: pod.set(("metadata", "labels", "a/b"), "c"))])
    assert ask(chain, body()) == {
        "uid": "u1",
        "allowed": True,
        "status": {"code": 200},
        "patchType": "JSONPatch",
        "patch": [{"op": "add", "path": "/metadata/labels", "value": {"a/b": "c"}}],
    }


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        ("admission.k8s.io/v1", "admission.k8s.io/v1"),
        ("admission.k8s.io/v1beta1", "admission.k8s.io/v1beta1"),
        (None, "admission.k8s.io/v1"),
    ],
)
def test_answer_has_the_version_of_the_request(sent: str | None, answered: str) -> None:
    envelope = json.loads(review(UNTOUCHED, body(api_version=sent)))
    assert (envelope["kind"], envelope["apiVersion"]) == ("AdmissionReview", answered)


def test_empty_body_is_refused() -> None:
    answer = json.loads(review(UNTOUCHED, b""))
    assert answer == {
        "response": {"uid": "", "allowed": False, "status": {"code": 400, "message": "request body is empty"}}
    }


def test_body_above_seven_mebibytes_is_refused() -> None:
    assert ask(UNTOUCHED, b" " * (MAX_BODY + 1))["status"] == {
        "code": 413,
        "message": "request entity is too large; limit is 7340032 bytes",
    }


def test_body_of_seven_mebibytes_is_read() -> None:
    sent = body()
    assert ask(UNTOUCHED, sent + b" " * (MAX_BODY - len(sent)))["allowed"]


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json; charset=utf-8"])
def test_other_content_type_is_refused(content_type: str) -> None:
    assert ask(UNTOUCHED, body(), content_type)["status"] == {
        "code": 400,
        "message": f"contentType={content_type}, expected application/json",
    }


@pytest.mark.parametrize(
    "sent",
    [
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b'{"request":5}',
        b'{"request":{"uid":5}}',
        b'{"kind":"Pod","apiVersion":"v1"}',
        b'{"kind":"\xff"}',
        b'{"request":{"object":' + b"[" * 5000 + b"]" * 5000 + b"}}",
        body(api_version="admission.k8s.io/v2"),
    ],
)
def test_what_is_no_admission_review_is_refused(sent: bytes) -> None:
    response = ask(UNTOUCHED, sent)
    assert not response["allowed"]
    assert response["status"]["code"] == 400


def test_null_members_are_absent_ones() -> None:
    response = ask(UNTOUCHED, body(subResource=None, dryRun=None, oldObject=None, userInfo=None))
    assert response == {"uid": "u1", "allowed": True, "status": {"code": 200}}


def test_denial_is_forbidden() -> None:
    def deny(*_: object) -> None:
        raise Denied('not "here"')

    assert ask(Chain("/mutate-pod", [mutating(deny)]), body())["status"] == {
        "code": 403,
        "reason": "Forbidden",
        "message": 'not "here"',
    }


def test_error_has_its_code_and_no_reason() -> None:
    def fail(*_: object) -> None:
        raise Errored(500, "no such class")

    status = ask(Chain("/mutate-pod", [mutating(fail)]), body())["status"]
    assert status == {"code": 500, "message": "no such class"}


def test_panic_is_an_error_without_a_patch() -> None:
    def fail(_: object, pod: object) -> None:
        pod.set(("metadata", "labels", "half"), "done")  # type: ignore[attr-defined]
        raise KeyError("oops")

    assert ask(Chain("/mutate-pod", [mutating(fail)]), body()) == {
        "uid": "u1",
        "allowed": False,
        "status": {"code": 500, "message": "panic: 'oops' [recovered]"},
    }


@given(st.binary(max_size=60))
def test_any_bytes_get_an_answer(sent: bytes) -> None:
    assert "response" in json.loads(review(UNTOUCHED, sent))


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["metadata", "labels", "spec", "containers", "kind", "name", "resources"]),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_any_object_gets_a_verdict(pod: object) -> None:
    response = ask(UNTOUCHED, body(pod))
    assert response["uid"] == "u1"
    assert response["status"]["code"] in (200, 400)


def test_unknown_fields_survive_edits_around_them() -> None:
    chain = Chain("/mutate-pod", [mutating(lambda _, pod: pod.set(("spec", "schedulerName"), "s"))])
    assert ask(chain, body(POD))["patch"] == [{"op": "add", "path": "/spec/schedulerName", "value": "s"}]
