"""The base of what the debug API and commands return as JSON: keys in camelCase, as in Kubernetes."""

from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class OutputModel(BaseModel):
    """A part of a JSON response. Fields have Python's names in code and camelCase ones in JSON."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, serialize_by_alias=True)


def encoded(value: object) -> bytes:
    """Return a value as JSON; models, NumPy scalars and arrays may be anywhere in it."""

    def plain(other: object) -> Any:
        if isinstance(other, BaseModel):
            return other.model_dump(mode="json", by_alias=True)
        if hasattr(other, "tolist"):  # NumPy scalars and arrays
            return other.tolist()
        raise TypeError(f"{type(other).__name__} cannot be shown as JSON")

    return msgspec.json.encode(value, enc_hook=plain)
