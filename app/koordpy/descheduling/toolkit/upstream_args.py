"""Arguments of the plugins that Koordinator takes from the Kubernetes descheduler.

They are decoded as Go decodes them over defaulted arguments: unknown fields are ignored, as are the type's
own apiVersion and kind; null clears what may be absent, keeps the default of anything else, and is the zero
value as an item of a list or map. Their errors have the texts of the descheduler, without a path. Source:
Koordinator, `pkg/descheduler/framework/plugins/kubernetes`; `sigs.k8s.io/descheduler`,
`pkg/framework/plugins`.
"""

from collections.abc import Iterator
from types import NoneType
from typing import Annotated, Any, ClassVar, get_args

import msgspec
from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator, model_validator

from koordpy.api import selector_errors
from koordpy.api.config_model import ConfigModel, Int32
from koordpy.api.field_error import FieldError
from koordpy.api.meta import LabelSelector
from koordpy.descheduling.args import PluginArgs

from .pods import Namespaces

Uint = Annotated[int, Field(ge=0, lt=1 << 64)]


def _without_null_items(zero: object) -> BeforeValidator:
    def replace(value: object) -> object:
        if isinstance(value, list):
            return [zero if item is None else item for item in value]
        if isinstance(value, dict):
            return {name: zero if item is None else item for name, item in value.items()}
        return value

    return BeforeValidator(replace)


Strings = Annotated[list[str], _without_null_items("")]
Int32s = Annotated[list[Int32], _without_null_items(0)]
Percentages = Annotated[dict[str, float], _without_null_items(0)]
"""Resource name to percent of a node's capacity."""


class UpstreamObject(ConfigModel):
    """An object in the arguments."""

    model_config = ConfigDict(extra="ignore")
    reads_nulls: ClassVar[bool] = True

    @model_validator(mode="before")
    @classmethod
    def _clear(cls, document: object) -> object:
        """Drop the nulls of fields that cannot be absent."""
        if not isinstance(document, dict):
            return document
        nullable = {
            field.alias for field in cls.model_fields.values() if NoneType in get_args(field.annotation)
        }
        return {name: item for name, item in document.items() if item is not None or name in nullable}


Objects = _without_null_items({})
"""Annotates a list of objects."""


class UpstreamNamespaces(UpstreamObject, Namespaces):
    """Namespaces to include or to exclude."""

    model_config = ConfigDict(extra="ignore")

    include: Strings = []
    exclude: Strings = []


def _read_selector(value: object) -> LabelSelector:
    if isinstance(value, LabelSelector):
        return value
    if not isinstance(value, dict):
        raise ValueError("expected a label selector with matchLabels and matchExpressions")
    try:
        return msgspec.convert(_selector_without_nulls(value), LabelSelector)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _selector_without_nulls(value: dict[str, Any]) -> dict[str, Any]:
    given = {name: item for name, item in value.items() if item is not None}
    if isinstance(labels := given.get("matchLabels"), dict):
        given["matchLabels"] = {key: "" if item is None else item for key, item in labels.items()}
    if isinstance(expressions := given.get("matchExpressions"), list):
        given["matchExpressions"] = [_expression_without_nulls(item) for item in expressions]
    return given


def _expression_without_nulls(value: object) -> object:
    if value is None:
        return {}
    if not isinstance(value, dict):
        return value
    given = {name: item for name, item in value.items() if item is not None}
    if isinstance(values := given.get("values"), list):
        given["values"] = ["" if item is None else item for item in values]
    return given


UpstreamSelector = Annotated[
    LabelSelector,
    PlainValidator(_read_selector),
    PlainSerializer(lambda selector: msgspec.to_builtins(selector)),
]
"""A `metav1.LabelSelector` with unknown fields; whether it is valid is checked by `selector_problems`."""


class UpstreamArgs(UpstreamObject, PluginArgs):
    """The base of the arguments of one such plugin."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _check_type(cls, document: object) -> object:
        """The apiVersion and kind of the document are ignored, but must be readable."""
        if isinstance(document, dict):
            for field in ("apiVersion", "kind"):
                if not isinstance(document.get(field), str | None):
                    raise ValueError(f"expected text as {field}")
            if (document.get("apiVersion") or "").count("/") > 1:
                raise ValueError("expected GROUP/VERSION as apiVersion")
        return document


def namespaces_problems(namespaces: Namespaces | None) -> Iterator[FieldError]:
    """Yield the error if namespaces are both included and excluded."""
    if namespaces is not None and namespaces.include and namespaces.exclude:
        yield problem("only one of Include/Exclude namespaces can be set")


def selector_problems(selector: LabelSelector | None) -> Iterator[FieldError]:
    """Yield the error of an invalid selector."""
    if selector is not None and (reason := selector_errors.reason(selector)):
        yield problem(f"failed to get label selectors from strategy's params: {reason}")


def problem(text: str) -> FieldError:
    """Return an error of the arguments as a whole, which is how the descheduler reports all of them."""
    return FieldError("", text)
