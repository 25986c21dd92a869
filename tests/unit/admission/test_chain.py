from typing import Any

import pytest
from prometheus_client import REGISTRY

from koordpy.admission.chain import Chain
from koordpy.admission.handler import Denied, Request
from koordpy.admission.history import History
from koordpy.api.core import Pod
from koordpy.api.document import Document

from .reviews import POD, ask, body, mutating, validating


def label(_: Request, pod: Document) -> None:
    pod.set(("metadata", "labels", "seen"), "yes")


LABELLING = Chain("/mutate-pod", [mutating(label)])


@pytest.mark.parametrize(
    "request_",
    [
        {"resource": {"resource": "configmaps"}},
        {"resource": {"resource": "Pods"}},
        {"subResource": "status"},
        {"subResource": "binding", "object": 5},
        {"operation": "UPDATE"},
        {"operation": "CONNECT"},
        {"operation": ""},
    ],
)
def test_what_is_no_creation_of_a_pod_is_allowed_unchanged(request_: dict[str, Any]) -> None:
    assert ask(LABELLING, body(**request_)) == {"uid": "u1", "allowed": True, "status": {"code": 200}}


@pytest.mark.parametrize("operation", ["CREATE", "DELETE", "UPDATE"])
def test_pod_request_without_an_object_is_refused(operation: str) -> None:
    assert ask(LABELLING, body(None, operation=operation))["status"] == {
        "code": 400,
        "message": "there is no content to decode",
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "ConfigMap"},
        {"apiVersion": "v2"},
        {"apiVersion": "apps/v1"},
        {"spec": []},
        {"spec": {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}},
        {"metadata": {"creationTimestamp": "yesterday"}},
    ],
)
def test_object_that_is_no_pod_is_refused(wrong: dict[str, object]) -> None:
    response = ask(LABELLING, body(POD | wrong))
    assert response["status"]["code"] == 400
    assert "patch" not in response


def test_kind_and_version_may_be_missing() -> None:
    assert ask(LABELLING, body({"metadata": {"name": "p"}}))["patch"]


def test_handlers_run_in_order_and_see_earlier_edits() -> None:
    seen: list[object] = []
    chain = Chain(
        "/mutate-pod",
        [
            mutating(label),
            mutating(lambda request, pod: seen.append(pod.get(("metadata", "labels", "seen")))),
            mutating(lambda request, pod: seen.append(request.object(Pod).metadata.labels)),
        ],
    )
    ask(chain, body())
    assert seen == ["yes", {"seen": "yes"}]


def test_first_refusal_ends_the_chain_and_drops_all_edits() -> None:
    ran: list[str] = []

    def deny(*_: object) -> None:
        raise Denied("no")

    chain = Chain(
        "/mutate-pod", [mutating(label), mutating(deny), mutating(lambda *_: ran.append("after the denial"))]
    )
    assert ask(chain, body())["allowed"] is False
    assert ran == []


def test_namespace_is_the_objects_or_else_the_requests() -> None:
    seen: list[str] = []
    chain = Chain("/mutate-pod", [mutating(lambda request, _: seen.append(request.namespace))])
    ask(chain, body())
    ask(chain, body(POD | {"metadata": {"namespace": "own"}}))
    assert seen == ["ns1", "own"]


def test_request_gives_user_dry_run_and_old_object() -> None:
    seen: list[object] = []

    def look(request: Request) -> None:
        seen.extend(
            [
                request.user_info.username,
                request.user_info.groups,
                request.dry_run,
                request.old_object(Pod).metadata.name,
                request.object(Pod).metadata.name,
            ]
        )

    ask(
        Chain("/check", [validating(look)]),
        body(
            operation="UPDATE",
            dryRun=True,
            userInfo={"username": "me", "groups": ["g"]},
            oldObject=POD | {"metadata": {"name": "old"}},
        ),
    )
    assert seen == ["me", ["g"], True, "old", "p1"]


def test_path_that_koordinator_does_not_have_takes_every_request() -> None:
    seen: list[str] = []
    chain = Chain("/check", [validating(lambda request: seen.append(request.operation))])
    assert ask(chain, body(None, operation="DELETE", resource={"resource": "widgets"}))["allowed"]
    assert ask(chain, body({"any": "thing"}, resource={"resource": "widgets"}))["allowed"]
    assert seen == ["DELETE", "CREATE"]


def test_object_that_a_handler_cannot_read_is_refused() -> None:
    chain = Chain("/check", [validating(lambda request: request.object(Pod))])
    status = ask(chain, body({"spec": 5}))["status"]
    assert status["code"] == 400
    assert "spec" in status["message"]


def test_handler_of_another_path_is_refused() -> None:
    with pytest.raises(ValueError, match=r"check\.Test belongs to /check, not to /mutate-pod"):
        Chain("/mutate-pod", [validating(lambda request: None)])


def test_last_admissions_are_remembered_newest_first() -> None:
    history = History(2)
    chain = Chain("/mutate-pod", [mutating(label)], history=history)
    for uid in ("1", "2", "3"):
        ask(chain, body(uid=uid))
    assert [admission.uid for admission in history] == ["3", "2"]
    newest = next(iter(history))
    assert (newest.namespace, newest.name, newest.code) == ("ns1", "p1", 200)
    assert newest.operations() == [{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]


@pytest.mark.parametrize(("operation", "label"), [("CREATE", "CREATE"), ("made-up", "other")])
def test_each_call_of_a_handler_is_timed(operation: str, label: str) -> None:
    def count() -> float:
        labels = {
            "webhook_type": "other",
            "object_type": "other",
            "operation": label,
            "plugin_name": "Test",
            "status": "allowed",
        }
        name = "koord_manager_webhook_webhook_duration_milliseconds_count"
        return REGISTRY.get_sample_value(name, labels) or 0

    before = count()
    ask(Chain("/timed", [validating(lambda request: None, "/timed")]), body(operation=operation))
    assert count() == before + 1


def test_panics_are_counted() -> None:
    def fail(_: Request) -> None:
        raise ZeroDivisionError

    before = REGISTRY.get_sample_value("controller_runtime_webhook_panics_total") or 0
    ask(Chain("/check", [validating(fail)]), body())
    assert REGISTRY.get_sample_value("controller_runtime_webhook_panics_total") == before + 1


def test_subresource_of_a_path_is_matched_and_its_object_is_not_read() -> None:
    seen: list[object] = []
    chain = Chain(
        "/validate-pod-binding",
        [validating(lambda request: seen.append(request.document), "/validate-pod-binding")],
    )
    assert ask(chain, body(5, subResource="binding"))["allowed"]
    assert ask(chain, body(5))["allowed"]
    assert ask(chain, body(5, subResource="binding", operation="UPDATE"))["allowed"]
    assert seen == [None]


def test_nulls_in_an_old_pod_are_read_as_go_reads_them() -> None:
    seen: list[object] = []
    chain = Chain(
        "/validate-pod",
        [validating(lambda request: seen.append(request.old_object(Pod).metadata.labels), "/validate-pod")],
    )
    old = POD | {"metadata": {"name": "old", "labels": {"null": None}}}
    assert ask(chain, body(operation="UPDATE", oldObject=old))["allowed"]
    assert seen == [{"null": ""}]


def test_what_a_caller_calls_things_takes_one_short_printable_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(_: Request) -> None:
        raise Denied("no")

    caplog.set_level("INFO", "koordpy.admission")
    chain = Chain("/check", [validating(refuse)])
    for hostile in ("p\nERROR all is lost", "\x1b[2J\x00", "\u2028", "n" * 3_000_000):
        ask(chain, body(name=hostile, operation=hostile, namespace=hostile))
    assert len(caplog.records) == 4
    for record in caplog.records:
        line = record.getMessage()
        assert line.isprintable()
        assert len(line) < 2000
