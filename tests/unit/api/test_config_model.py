from typing import Annotated

import pytest

from koordpy.api import config_model
from koordpy.api.config_model import ConfigError, ConfigModel, Duration, NoEffect, Seconds, without_effect


class Inner(ConfigModel):
    how_long: Duration = 0


class Outer(ConfigModel):
    some_count: int = 1
    inner: Inner = Inner()
    wait: Seconds = 0.0
    needed: str


def problems(document: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        config_model.read(Outer, document, "top")
    return caught.value.problems


def test_null_is_absent_and_durations_have_their_unit() -> None:
    read = config_model.read(
        Outer, {"someCount": None, "inner": {"howLong": "2us"}, "wait": 3, "needed": "x"}
    )
    assert (read.some_count, read.inner.how_long, read.wait) == (1, 2000, 3.0)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"some_count": 2}, "top.some_count: unknown field, got 2; did you mean someCount?"),
        ({"inner": {"howLng": "1s"}}, 'top.inner.howLng: unknown field, got "1s"; did you mean howLong?'),
        ({"someCount": "2"}, 'top.someCount: got "2", expected a valid integer'),
        (
            {"inner": {"howLong": 5}},
            "top.inner.howLong: got 5, expected a duration, such as 90s or 1h30m",
        ),
        ({"needed": None}, "top.needed: Required value"),
        ({"needed": ["x" * 200]}, f'top.needed: got ["{"x" * 115}..., expected a valid string'),
    ],
)
def test_a_wrong_field_is_named_with_its_value_and_what_was_expected(
    fields: dict[str, object], problem: str
) -> None:
    assert problems({"needed": "x", **fields}) == (problem,)


def test_all_problems_are_listed() -> None:
    assert problems({"a": 1, "b": 2}) == (
        "top.needed: Required value",
        "top.a: unknown field, got 1",
        "top.b: unknown field, got 2",
    )


def test_integers_beyond_64_bits_are_named_wherever_they_are() -> None:
    assert problems({"needed": "x", "a": {"b": [0, 2**63]}, "c": -(2**63) - 1}) == (
        "top.a.b[1]: got 9223372036854775808, expected an integer of 64 bits",
        "top.c: got -9223372036854775809, expected an integer of 64 bits",
    )


def test_what_is_no_object_is_refused() -> None:
    assert problems([1]) == ("top: got [1], expected an object",)


def test_arguments_may_have_their_type_but_no_other() -> None:
    typed = {"apiVersion": "v", "kind": "K", "needed": "x"}
    assert config_model.read_args(Outer, typed, "args", api_version="v", kind="K").needed == "x"
    with pytest.raises(ConfigError, match=r'^args\.kind: got "K", expected "L"$'):
        config_model.read_args(Outer, typed, "args", api_version="v", kind="L")


def test_a_place_is_put_before_every_problem() -> None:
    assert ConfigError("a: bad", "b: bad").under("file").problems == ("file: a: bad", "file: b: bad")


class Marked(ConfigModel):
    threads: Annotated[int, NoEffect("one thread does it all")] = 16
    lock: Annotated[str, NoEffect("a Lease is taken", but="leases")] = "leases"
    share: Annotated[int, NoEffect("kube-scheduler decides", "extender")] = 0
    acts: int = 0


class Marking(ConfigModel):
    inner: Marked = Marked()
    many: list[Marked] = []


@pytest.mark.parametrize(
    ("document", "component", "lines"),
    [
        ({}, "extender", []),
        ({"inner": {"acts": 2, "lock": "leases"}}, "extender", []),
        ({"inner": {"threads": 16}}, "", ["inner.threads has no effect: one thread does it all"]),
        ({"inner": {"share": 5}}, "", []),
        ({"inner": {"share": 5}}, "extender", ["inner.share has no effect: kube-scheduler decides"]),
        (
            {"many": [{}, {"lock": "endpoints", "threads": 2}]},
            "",
            [
                "many[1].threads has no effect: one thread does it all",
                "many[1].lock has no effect: a Lease is taken",
            ],
        ),
    ],
)
def test_fields_that_are_set_and_decide_nothing_are_named(
    document: object, component: str, lines: list[str]
) -> None:
    assert list(without_effect(config_model.read(Marking, document), component)) == lines
