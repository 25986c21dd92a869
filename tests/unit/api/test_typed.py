import json
from typing import Any

import pytest

from koordpy.api import typed, typed_fields
from koordpy.api.patch_types import patch_types
from koordpy.api.scheme import DecodeError


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [], **fields}}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"spec": None, "metadata": {"labels": None, "creationTimestamp": None}},
        {"metadata": {"labels": {"a": None}}},
        {"unknown": {"a": 1}, "spec": {"unknown": []}},
        spec(containers=[None]),
        spec(overhead={"cpu": 1, "memory": "1.5Gi", "x": 0.5, "y": None}),
        spec(containers=[{"livenessProbe": {"httpGet": {"port": "http"}}, "ports": [{"containerPort": 80}]}]),
        {"metadata": {"creationTimestamp": "2024-02-29T10:00:00.123456789+02:00"}},
        {"metadata": {"creationTimestamp": "2024-02-29T9:00:00+24:00"}},
    ],
)
def test_document_that_go_reads_passes(document: dict[str, Any]) -> None:
    assert typed.check("Pod", json.dumps(document).encode()) == document
    typed.canonical("Pod", document)


@pytest.mark.parametrize(
    ("document", "place"),
    [
        ({"spec": "x"}, "spec"),
        ({"metadata": {"labels": {"a": 1}}}, "labels"),
        ({"metadata": {"labels": []}}, "labels"),
        ({"metadata": {"finalizers": [1]}}, "finalizers"),
        ({"metadata": {"creationTimestamp": "2024-02-30T10:00:00Z"}}, "creationTimestamp"),
        ({"metadata": {"creationTimestamp": "2024-01-01"}}, "creationTimestamp"),
        ({"metadata": {"creationTimestamp": "9999-12-31T23:59:59-10:00"}}, "creationTimestamp"),
        (spec(priority=True), "priority"),
        (spec(priority=1.5), "priority"),
        (spec(priority=3000000000), "priority"),
        (spec(hostNetwork="true"), "hostNetwork"),
        (spec(terminationGracePeriodSeconds=10**20), "terminationGracePeriodSeconds"),
        (spec(overhead={"cpu": "lots"}), "overhead"),
        (spec(containers={"name": "a"}), "containers"),
        (spec(containers=[{"env": [{"name": 1}]}]), "env"),
        (spec(volumes=[{"emptyDir": {"sizeLimit": "x"}}]), "sizeLimit"),
    ],
)
def test_document_that_go_does_not_read_is_refused_by_both_ways(document: dict[str, Any], place: str) -> None:
    with pytest.raises(DecodeError, match=place):
        typed.check("Pod", json.dumps(document).encode())
    with pytest.raises(DecodeError, match=place):
        typed.canonical("Pod", document)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"5", b'{"kind":"\xff"}', b"[" * 5000])
def test_bytes_that_are_no_object_are_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        typed.check("Pod", raw)


def test_canonical_form_is_what_go_writes_again() -> None:
    document = {
        "unknown": 1,
        "metadata": {"name": "p", "labels": {"a": None}, "annotations": {}, "generation": 0},
        "spec": {
            "priority": 0,
            "hostNetwork": False,
            "securityContext": {},
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "1000m", "memory": "1024Mi"}}}],
            "volumes": [],
        },
    }
    assert typed.canonical("Pod", document) == {
        "metadata": {"name": "p", "labels": {"a": ""}},
        "spec": {
            "priority": 0,
            "securityContext": {},
            "containers": [{"name": "a", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        },
        "status": {},
    }


def test_fields_that_are_always_written_are_added() -> None:
    pod = spec(containers=[{"volumeMounts": [{}], "livenessProbe": {"grpc": {}}}])
    assert typed.canonical("Pod", pod)["spec"]["containers"] == [
        {
            "name": "",
            "resources": {},
            "volumeMounts": [{"name": "", "mountPath": ""}],
            "livenessProbe": {"grpc": {"port": 0, "service": None}},
        }
    ]


def test_folding_case_lets_the_later_spelling_win() -> None:
    pod = {"spec": {"schedulername": "b", "schedulerName": "a", "NODESELECTOR": {"a": "1"}}}
    folded = typed.canonical("Pod", pod, fold_case=True)["spec"]
    assert folded == {"containers": None, "schedulerName": "b", "nodeSelector": {"a": "1"}}
    assert typed.canonical("Pod", pod)["spec"] == {"containers": None, "schedulerName": "a"}


def test_canonical_form_is_a_fixed_point() -> None:
    once = typed.canonical("Pod", spec(containers=[{"name": "a", "env": [{"name": "x"}]}], volumes=[{}]))
    assert typed.canonical("Pod", once) == once
    assert typed.check("Pod", json.dumps(once).encode()) == once


def test_tables_name_only_fields_that_exist() -> None:
    types = patch_types()
    places = [
        *typed_fields.WRITTEN_EMPTY.split(),
        *(place for text in typed_fields.KINDS.values() for place in text.split()),
    ]
    for place in places:
        type_name, name = place.split(".")
        assert name in {field.name for field in types[type_name].fields}, place


@pytest.mark.parametrize(("written", "canonical"), [("90m", "1h30m0s"), ("0", "0s"), (None, None)])
def test_durations_are_written_as_go_does(written: str | None, canonical: str | None) -> None:
    document = {"spec": {"ttl": written}}
    assert typed.check("Reservation", json.dumps(document).encode()) == document
    assert typed.canonical("Reservation", document)["spec"].get("ttl") == canonical


@pytest.mark.parametrize("ttl", ["", "soon", "5", 5])
def test_malformed_duration_is_refused_by_both_ways(ttl: Any) -> None:
    document = {"spec": {"ttl": ttl}}
    with pytest.raises(DecodeError, match="ttl"):
        typed.check("Reservation", json.dumps(document).encode())
    with pytest.raises(DecodeError, match="ttl"):
        typed.canonical("Reservation", document)
