"""Protobuf bodies against what Kubernetes' own encoder writes, and against broken and hostile ones."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.embedded.apiserver import catalog
from koordpy.embedded.apiserver.errors import ApiError
from koordpy.embedded.apiserver.representation import bodies, protobuf
from koordpy.embedded.apiserver.wire import Request
from tests.protobuf_bytes import body, nested, varint

_LINES = gzip.decompress(Path(__file__).with_name("protobuf_samples.jsonl.gz").read_bytes()).splitlines()
_SAMPLES = [json.loads(line) for line in _LINES]
_BODIES = [base64.b64decode(sample["protobuf"]) for sample in _SAMPLES]


def without_nulls(value: Any) -> Any:
    """Nulls stand for what is absent; Go writes them where no field says to leave them out."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("sample", _SAMPLES, ids=lambda sample: sample["json"]["kind"])
def test_body_of_the_go_encoder_is_read_as_go_reads_it(sample: dict[str, Any]) -> None:
    found = protobuf.load(base64.b64decode(sample["protobuf"]))
    assert without_nulls(found) == without_nulls(sample["json"])


def test_every_served_kind_has_samples() -> None:
    sampled = {(sample["json"]["apiVersion"], sample["json"]["kind"]) for sample in _SAMPLES}
    assert {(served.api_version, served.kind) for served in catalog.built_in()} <= sampled


def test_delete_options_have_the_version_of_any_group() -> None:
    found = protobuf.load(body("DeleteOptions", b"\x08\x05", "apps/v1"))
    assert found == {"kind": "DeleteOptions", "apiVersion": "apps/v1", "gracePeriodSeconds": 5}


def test_unknown_fields_are_skipped() -> None:
    unknown = nested(100, b"x") + varint(101 << 3) + b"\x05" + varint(102 << 3 | 1) + bytes(8)
    found = protobuf.load(body("ConfigMap", unknown + nested(2, nested(1, b"k") + nested(2, b"v"))))
    assert found == {"kind": "ConfigMap", "apiVersion": "v1", "data": {"k": "v"}}


def test_packed_and_repeated_integers_are_the_same() -> None:
    security = nested(4, b"\x01\x02") + varint(4 << 3) + b"\x03"
    found = protobuf.load(body("Pod", nested(2, nested(14, security))))
    assert found["spec"]["securityContext"] == {"supplementalGroups": [1, 2, 3]}


def test_message_in_two_parts_is_merged() -> None:
    found = protobuf.load(body("Pod", nested(2, nested(10, b"node")) + nested(2, nested(19, b"other"))))
    assert found["spec"] == {"nodeName": "node", "schedulerName": "other"}


_DEEP = b""
for _ in range(200):
    _DEEP = nested(28, _DEEP)  # JSONSchemaProps.not

_BROKEN = {
    "no magic": (b"{}", "must start with"),
    "nothing behind the magic": (b"k8s\0", "no protobuf form"),
    "unknown kind": (body("Banana", b""), "'Banana'"),
    "cut integer": (body("Pod", b"\x80"), "cut off"),
    "endless integer": (body("Pod", b"\x80" * 100), "more than 64 bits"),
    "length beyond the end": (body("Pod", b"\x0a\xff\xff\xff\xff\x0f"), "cut off"),
    "cut fixed number": (body("Pod", b"\x09\x01"), "cut off"),
    "group": (body("Pod", b"\x0b\x0c"), "unknown wire type"),
    "field 0": (body("Pod", b"\x02\x00"), "number 0"),
    "wrong wire type": (body("Pod", b"\x08\x01"), "wire type 0"),
    "not UTF-8": (body("Pod", nested(1, nested(1, b"\xff"))), "not UTF-8"),
    "time out of range": (body("Pod", nested(1, nested(8, b"\x08" + varint(1 << 62)))), "the time"),
    "embedded text": (body("ControllerRevision", nested(2, nested(1, b"{")), "apps/v1"), "not JSON"),
    "embedded nesting": (
        body("ControllerRevision", nested(2, nested(1, b"[" * 10_000)), "apps/v1"),
        "not JSON",
    ),
    "embedded multitude": (
        body("ControllerRevision", nested(2, nested(1, b"[" + b"{}," * 100_000 + b"1]")), "apps/v1"),
        "more than",
    ),
    "too many fields": (body("Pod", nested(99, b"") * 100_000), "more than"),
    "too many packed integers": (
        body("Pod", nested(2, nested(14, nested(4, b"\x01" * 100_000)))),
        "more than",
    ),
    "other content": (body("Pod", b"") + nested(4, b"application/json"), "application/json"),
}


@pytest.mark.parametrize(("broken", "told"), _BROKEN.values(), ids=_BROKEN)
def test_broken_body_is_a_bad_request_that_says_why(broken: bytes, told: str) -> None:
    with pytest.raises(ApiError, match=told) as caught:
        protobuf.load(broken)
    assert caught.value.code == 400


def test_deeply_nested_schema_is_refused() -> None:
    spec = nested(7, nested(1, b"v1") + nested(4, nested(1, _DEEP)))
    with pytest.raises(ApiError, match="nested more than"):
        protobuf.load(body("CustomResourceDefinition", nested(2, spec), "apiextensions.k8s.io/v1"))


@given(st.sampled_from(_BODIES), st.integers(0, 4000), st.binary(max_size=4), st.booleans())
def test_damaged_body_is_read_or_refused(sample: bytes, at: int, other: bytes, is_cut: bool) -> None:
    damaged = sample[:at] + other + (b"" if is_cut else sample[at + len(other) :])
    try:
        assert isinstance(protobuf.load(damaged), dict)
    except ApiError as error:
        assert error.code == 400  # noqa: PT017


def test_object_of_a_custom_resource_has_no_protobuf_form() -> None:
    served = catalog.Served("example.com", "v1", "widgets", "Widget", True, custom=True)
    headers = {b"content-type": protobuf.MEDIA_TYPE.encode()}
    request = Request("POST", b"/", headers, body("Widget", b"", "example.com/v1"))
    with pytest.raises(ApiError, match=r"application/json, application/yaml$") as caught:
        bodies.load(request, served)
    assert caught.value.code == 415
