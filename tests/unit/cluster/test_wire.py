"""Pages and watch events from bytes: whole runs fast, broken ones object by object."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import ConfigMap, Pod
from koordpy.api.scheme import DecodeError
from koordpy.cluster.wire import LineBuffer, WatchError, decode_events, decode_page


def event(kind: str, name: str, extra: str = "") -> bytes:
    return f'{{"type":"{kind}","object":{{"metadata":{{"name":"{name}"}}{extra}}}}}\n'.encode()


def test_page_without_items_is_empty() -> None:
    page = decode_page(Pod, b'{"metadata":{"resourceVersion":"5"},"items":null}')
    assert page.items == []
    assert page.metadata.resource_version == "5"


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'{"items":5}', b'{"items":[{]}'])
def test_a_document_that_is_not_a_list_is_rejected(body: bytes) -> None:
    with pytest.raises(DecodeError, match="list of Pod"):
        decode_page(Pod, body)


def test_events_keep_their_order() -> None:
    lines = event("ADDED", "a") + event("MODIFIED", "a") + event("DELETED", "a")
    events, malformed = decode_events(Pod, lines)
    assert [(e.type, e.object.metadata.name) for e in events] == [
        ("ADDED", "a"),
        ("MODIFIED", "a"),
        ("DELETED", "a"),
    ]
    assert malformed == []


def test_malformed_event_is_set_aside() -> None:
    lines = event("ADDED", "a") + event("ADDED", "bad", ',"spec":7') + event("ADDED", "b")
    events, malformed = decode_events(Pod, lines)
    assert [e.object.metadata.name for e in events] == ["a", "b"]
    assert [m.key for m in malformed] == ["bad"]


def test_error_event_is_raised_even_where_a_status_looks_like_the_kind() -> None:
    error = b'{"type":"ERROR","object":{"kind":"Status","metadata":{},"code":410,"reason":"Expired"}}\n'
    with pytest.raises(WatchError, match="410 Expired") as caught:
        decode_events(ConfigMap, event("ADDED", "a") + error)
    assert caught.value.status.code == 410
    assert len(caught.value.events) == 1


@pytest.mark.parametrize("line", [b"nonsense\n", b"{}\n", b"[]\n"])
def test_line_that_is_not_an_event_is_rejected(line: bytes) -> None:
    with pytest.raises(DecodeError, match="watch of Pod"):
        decode_events(Pod, line)


@given(st.lists(st.binary(max_size=8).map(lambda b: b.replace(b"\n", b"")), max_size=8), st.data())
def test_lines_are_whole_however_the_stream_is_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    buffer, out = LineBuffer(), b""
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        whole = buffer.feed(stream[:size])
        assert not whole or whole.endswith(b"\n")
        out, stream = out + whole, stream[size:]
    assert out == b"".join(line + b"\n" for line in lines)


def test_endless_line_is_refused() -> None:
    buffer = LineBuffer(limit=100)
    for _ in range(10):
        assert buffer.feed(b"x" * 10) == b""
    with pytest.raises(DecodeError, match="more than 100 bytes"):
        buffer.feed(b"x")
