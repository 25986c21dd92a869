"""A plugin's arguments are known by the annotation of `args`, and read in one way for all kinds."""

from collections.abc import Iterable
from typing import Any, ClassVar

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.api.field_error import FieldError, invalid
from koordpy.api.plugin import BasePlugin, NoArgs, PluginArgs


class HeightArgs(PluginArgs):
    max_height: int = 3

    def problems(self) -> Iterable[FieldError]:
        if self.max_height < 0:
            yield invalid("maxHeight", self.max_height, "must not be negative")


class Measured(BasePlugin):
    name = "Measured"
    args: HeightArgs


class Versioned(Measured):
    name = "Versioned"
    args_api_version: ClassVar[str] = "example.com/v1"


class Plain(BasePlugin):
    name = "Plain"


def test_the_annotation_of_args_says_their_type() -> None:
    assert Measured.args_type is HeightArgs
    assert Versioned.args_type is HeightArgs
    assert Plain.args_type is PluginArgs


def test_an_annotation_that_is_a_string_is_resolved_in_its_module() -> None:
    class Quoted(BasePlugin):
        args: "HeightArgs"

    assert Quoted.args_type is HeightArgs


def test_an_annotation_that_is_not_imported_is_refused_where_the_class_is_defined() -> None:
    with pytest.raises(
        TypeError, match=r"Lost: args: Nowhere: name 'Nowhere' is not defined; expected a type"
    ):

        class Lost(BasePlugin):
            args: "Nowhere"  # type: ignore[name-defined]  # noqa: F821


def test_an_annotation_with_another_type_is_refused_where_the_class_is_defined() -> None:
    with pytest.raises(
        TypeError, match=r"Odd: args: got <class 'dict'>, expected a subclass of .*PluginArgs"
    ):

        class Odd(BasePlugin):
            args: dict  # type: ignore


def test_a_kind_may_have_a_base_of_its_own_for_arguments() -> None:
    with pytest.raises(TypeError, match=r"Flat: args: got .*NoArgs'>, expected a subclass of .*\.HeightArgs"):

        class Flat(Measured):
            args: NoArgs  # type: ignore[assignment]


def test_there_is_one_way_to_name_the_type() -> None:
    with pytest.raises(TypeError, match="args_type cannot be set; annotate args"):

        class Twice(BasePlugin):
            args_type = HeightArgs


def test_arguments_have_defaults() -> None:
    assert Measured.read_args(None, "args") == HeightArgs(max_height=3)
    assert Measured.read_args({}, "args") == HeightArgs(max_height=3)
    assert Measured.read_args({"maxHeight": 5}, "args") == HeightArgs(max_height=5)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"maxHeight": "5"}, r'^pluginConfig\[3\]\.args\.maxHeight: got "5", expected a valid integer$'),
        ({"height": 5}, r"^pluginConfig\[3\]\.args\.height: unknown field, got 5; did you mean maxHeight\?$"),
        ({"maxHeight": -1}, r"^pluginConfig\[3\]\.args\.maxHeight: Invalid value: -1: must not be negative$"),
        ([], r"^pluginConfig\[3\]\.args: got \[\], expected an object$"),
        ({"kind": "MeasuredArgs"}, r"^pluginConfig\[3\]\.args\.kind: unknown field"),
    ],
)
def test_wrong_arguments_are_named_by_their_path(document: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Measured.read_args(document, "pluginConfig[3].args")


def test_a_plugin_is_made_of_a_document() -> None:
    made = Measured.make("the handle", {"maxHeight": 5})
    assert (made.args.max_height, made.handle) == (5, "the handle")
    with pytest.raises(ConfigError, match=r"^args\.maxHeight: got null|^args\.height: unknown field"):
        Measured.make("the handle", {"height": 5})


def test_arguments_of_some_kinds_may_say_their_type() -> None:
    typed = {"apiVersion": "example.com/v1", "kind": "VersionedArgs", "maxHeight": 1}
    assert Versioned.read_args(typed, "args") == HeightArgs(max_height=1)
    with pytest.raises(ConfigError, match=r'args\.kind: got "OtherArgs", expected "VersionedArgs"'):
        Versioned.read_args({"kind": "OtherArgs"}, "args")


def test_arguments_of_a_plugin_without_any_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"args\.height: unknown field"):
        Plain.read_args({"height": 1}, "args")
    assert NoArgs() == NoArgs()
