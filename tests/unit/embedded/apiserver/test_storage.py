"""Tables: revisions, order, history and its limits."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.embedded.apiserver.storage import Event, Revisions, Table, TooNew, TooOld


def table(window: int = 100) -> Table:
    return Table(Revisions(), lambda document: {}, window)


def put(table: Table, key: str, **fields: Any) -> int:
    name = key.rpartition("/")[2]
    return table.put(key, {"metadata": {"name": name, "uid": key}, **fields}).revision


def keys_at(table: Table, revision: int | None = None, namespace: str = "", after: str = "") -> list[str]:
    keys, changed = table.range(namespace, after, revision)
    return [key for key in keys if table.lookup(key, changed) is not None]


def test_every_write_takes_the_next_revision_and_stamps_it() -> None:
    one = table()
    first, second = put(one, "a/x"), put(one, "a/x")
    assert second == first + 1
    record = one.get("a/x")
    assert record is not None
    assert record.document()["metadata"]["resourceVersion"] == str(second)


def test_keys_are_in_the_order_of_their_bytes() -> None:
    one = table()
    for key in ("b/a", "a/b", "a-b/a", "a/a"):
        put(one, key)
    assert keys_at(one) == ["a-b/a", "a/a", "a/b", "b/a"]


def test_range_of_a_namespace_leaves_out_its_neighbours() -> None:
    one = table()
    for key in ("a/x", "a-b/x", "a0/x", "ab/x"):
        put(one, key)
    assert keys_at(one, namespace="a") == ["a/x"]


def test_range_continues_after_a_deleted_key() -> None:
    one = table()
    for key in ("a/1", "a/2", "a/3"):
        put(one, key)
    one.remove("a/2")
    assert keys_at(one, namespace="a", after="a/2") == ["a/3"]


def test_listeners_get_every_write_until_they_are_removed() -> None:
    one, seen = table(), list[Event]()
    leave = one.subscribe(seen.append)
    put(one, "a/x")
    put(one, "a/x")
    one.remove("a/x")
    leave()
    put(one, "a/y")
    assert [(event.type, event.previous is None) for event in seen] == [
        ("ADDED", True),
        ("MODIFIED", False),
        ("DELETED", False),
    ]


def test_events_since_a_revision_are_those_after_it() -> None:
    one = table()
    start = put(one, "a/x")
    put(one, "a/y")
    assert [event.record.key for event in one.since(start)] == ["a/y"]


def test_window_bounds_the_history_from_both_sides() -> None:
    one = table(window=10)
    first = put(one, "a/0")
    revisions = [put(one, f"a/{number}") for number in range(1, 40)]
    with pytest.raises(TooOld):
        one.since(first)
    assert len(one.since(revisions[-11])) == 10


def test_compacted_history_reaches_back_to_now_only() -> None:
    one = table()
    first = put(one, "a/x")
    last = put(one, "a/y")
    one.compact()
    assert one.since(last) == []
    with pytest.raises(TooOld):
        one.range(at=first)


def test_revision_of_the_future_is_refused() -> None:
    one = table()
    with pytest.raises(TooNew):
        one.range(at=put(one, "a/x") + 1)


def test_object_is_found_by_its_uid_while_it_exists() -> None:
    one = table()
    put(one, "a/x")
    assert [record.key for record in one.with_uid("a/x")] == ["a/x"]
    one.remove("a/x")
    assert one.with_uid("a/x") == []


@given(st.lists(st.tuples(st.sampled_from(["a/1", "a/2", "b/1", "b/2"]), st.booleans()), max_size=30))
def test_state_at_any_revision_is_what_it_was_then(steps: list[tuple[str, bool]]) -> None:
    one, state = table(), dict[str, int]()
    history: list[tuple[int, dict[str, int]]] = []
    for number, (key, delete) in enumerate(steps):
        if delete and key in state:
            revision = one.remove(key).revision
            del state[key]
        else:
            revision = put(one, key, number=number)
            state[key] = number
        history.append((revision, dict(state)))
    for revision, then in history:
        keys, changed = one.range(at=revision)
        records = {key: one.lookup(key, changed) for key in keys}
        found = {key: record.document()["number"] for key, record in records.items() if record is not None}
        assert found == then
        assert list(found) == sorted(found)


def test_the_histories_of_all_tables_are_bounded_in_bytes_together() -> None:
    revisions = Revisions(history_bytes=100_000)
    large, small = (Table(revisions, lambda document: {}, 1000) for _ in range(2))
    first = put(small, "a/x")
    for number in range(50):
        put(large, f"a/{number}", text="x" * 20_000)
        large.remove(f"a/{number}")
        assert revisions.history_bytes <= 100_000
    assert revisions.history_bytes == large.history_bytes + small.history_bytes
    assert len(small.since(first - 1)) == 1
    with pytest.raises(TooOld):
        large.since(first)
    newest = large.since(revisions.current - 1)
    assert [event.type for event in newest] == ["DELETED"]


def test_an_event_larger_than_the_bound_is_delivered_but_not_kept() -> None:
    revisions, seen = Revisions(history_bytes=10_000), list[Event]()
    one = Table(revisions, lambda document: {}, 1000)
    one.subscribe(seen.append)
    put(one, "a/x", text="x" * 20_000)
    assert [event.type for event in seen] == ["ADDED"]
    assert (revisions.history_bytes, one.get("a/x") is not None) == (0, True)


def test_what_was_encoded_for_watchers_is_not_kept() -> None:
    one, seen = table(), list[Event]()

    def encode(event: Event) -> None:
        event.encoded["json"] = b"{}"
        seen.append(event)

    one.subscribe(encode)
    put(one, "a/x")
    assert [event.encoded for event in seen] == [{}]
