"""Server-side apply: ownership of fields."""

from datetime import UTC, datetime
from typing import Any

import pytest

from koordpy.embedded.apiserver.catalog import Served
from koordpy.embedded.apiserver.errors import ApiError
from koordpy.embedded.apiserver.kinds import smaller as kinds
from koordpy.embedded.apiserver.verbs.apply import Applied

NOW = datetime(2026, 1, 1, tzinfo=UTC)
POD = Served("", "v1", "pods", "Pod", True)
POD.strategy = kinds.of("", "Pod")


def apply(live: dict[str, Any], manager: str, force: bool = False, **fields: Any) -> dict[str, Any]:
    return Applied(manager, POD, {"metadata": {"name": "a"}, **fields}, force, NOW).onto(live)


def containers(*names: str, **fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": name, **fields} for name in names]}


def live() -> dict[str, Any]:
    return {"metadata": {"name": "a"}}


def test_items_are_merged_by_their_key_and_removed_by_their_owner_only() -> None:
    state = apply(live(), "one", spec=containers("main", image="x"))
    state = apply(state, "two", spec=containers("side", image="y"))
    assert [c["name"] for c in state["spec"]["containers"]] == ["main", "side"]
    state = apply(state, "two", spec={})
    assert [c["name"] for c in state["spec"]["containers"]] == ["main"]


def test_same_value_is_shared_without_conflict() -> None:
    state = apply(live(), "one", spec={"nodeSelector": {"a": "1"}})
    state = apply(state, "two", spec={"nodeSelector": {"a": "1"}})
    state = apply(state, "one", spec={})
    assert state["spec"]["nodeSelector"] == {"a": "1"}


def test_other_value_is_a_conflict_that_names_manager_and_field() -> None:
    state = apply(live(), "one", spec=containers("main", image="x"))
    with pytest.raises(ApiError) as refusal:
        apply(state, "two", spec=containers("main", image="y"))
    (cause,) = refusal.value.status["details"]["causes"]
    assert cause["field"] == '.spec.containers[name="main"].image'
    assert 'conflict with "one"' in cause["message"]


def test_force_takes_the_field_over() -> None:
    state = apply(live(), "one", spec=containers("main", image="x"))
    state = apply(state, "two", force=True, spec=containers("main", image="y"))
    state = apply(state, "one", spec={})
    assert state["spec"]["containers"] == [{"name": "main", "image": "y"}]


def test_argument_is_not_changed() -> None:
    state = apply(live(), "one", spec={"nodeSelector": {"a": "1"}})
    before = repr(state)
    apply(state, "one", spec={"nodeSelector": {"b": "1"}})
    assert repr(state) == before
