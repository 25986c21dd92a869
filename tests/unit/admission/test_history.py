from datetime import UTC, datetime

from koordpy.admission.history import Admission, History


def admission(**changes: object) -> Admission:
    fields: dict[str, object] = {
        "time": datetime(2026, 1, 1, tzinfo=UTC),
        "path": "/mutate-pod",
        "uid": "u",
        "operation": "CREATE",
        "namespace": "ns",
        "name": "p",
        "allowed": True,
        "code": 200,
        "message": "",
        "patch": b"[]",
        "seconds": 0.1,
    }
    return Admission(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_oldest_is_forgotten_and_the_newest_comes_first():
    history = History(2)
    for name in ("a", "b", "c"):
        history.add(admission(name=name))
    assert [known.name for known in history] == ["c", "b"]


def test_what_is_usual_is_kept_as_it_is():
    history = History()
    usual = admission(message="x" * 1000, patch=b"[" + b" " * 100_000 + b"]")
    history.add(usual)
    assert list(history) == [usual]


def test_large_requests_take_little_room():
    history = History()
    history.add(admission(uid="u" * 3_000_000, name="n" * 3_000_000, message="m" * 3_000_000))
    history.add(admission(patch=b"[" + b" " * 3_000_000 + b"]"))
    patched, refused = history
    assert max(map(len, (refused.uid, refused.name, refused.message))) < 5000
    assert refused.message.endswith("(truncated)")
    assert patched.operations() == []
    assert patched.message == "a patch of 3000002 bytes... (truncated)"
