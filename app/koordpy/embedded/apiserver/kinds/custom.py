"""Custom resources, whose rules are the schema of their definition."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec

from koordpy.api import crd
from koordpy.api.field_cause import Cause
from koordpy.lib.bounded_cache import cached

from .. import metadata as meta
from ..catalog import Served
from ..representation import jsonpath
from . import columns
from .strategy import Strategy

Document = dict[str, Any]


class CustomStrategy(Strategy):
    """The rules of one version of a custom resource."""

    unconditional_update = False
    counts_generation = True

    def __init__(self, version: Document) -> None:
        self._source: Document = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        self._schema = crd.Schema(self._source)
        self.has_status = "status" in (version.get("subresources") or {})
        self._paths = [item["jsonPath"] for item in version.get("selectableFields") or ()]
        self.selectable = tuple(path.removeprefix(".") for path in self._paths)
        self._columns = _columns(version.get("additionalPrinterColumns") or [])

    @staticmethod
    def of(version: Document) -> "CustomStrategy":
        """Return the rules of a version of a definition, which several API servers of a process share."""
        return _strategy(msgspec.json.encode(version))

    def read(self, served: Served, document: Document, unknown: list[str]) -> Document:
        """Prune, then fill in defaults."""
        document = self.prune(served, document, unknown)
        self.default(document)
        return document

    @cached_property
    def _accepts(self) -> Callable[[Any], bool]:
        return crd.accepting(self._schema)

    def prune(self, served: Served, document: Document, unknown: list[str]) -> Document:
        """Drop fields that the schema does not have."""
        metadata = document.pop("metadata", None)
        self._schema.prune(document, unknown)
        document["metadata"] = meta.tidy(served.kind, served.api_version, metadata, unknown)
        return document

    def default(self, document: Document) -> None:
        """Fill in the schema's defaults."""
        self._schema.fill(document)

    def fields(self, document: Document) -> Mapping[str, str]:
        """Return the selectable fields of the definition."""
        found = {}
        for path, name in zip(self._paths, self.selectable, strict=True):
            values = jsonpath.find(document, path)
            if values:
                value = values[0]
                found[name] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    def present_items(self, served: Served, raws: list[bytes]) -> list[bytes]:
        """Items carry kind and version."""
        return [served.prefix + raw[1:] for raw in raws]

    def columns(self, served: Served) -> tuple[columns.Column, ...]:
        """Return the definition's printer columns."""
        return self._columns

    def schema(self) -> Document | None:
        """Return the definition's schema, with the common fields of objects."""
        properties = {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        }
        return {**self._source, "properties": {**properties, **self._source.get("properties", {})}}

    def prepare_status(self, new: Document, old: Document) -> Document:
        """Only the status changes."""
        result = {**old, "metadata": {**old["metadata"]}}
        result.pop("status", None)
        if "status" in new:
            result["status"] = new["status"]
        for name in ("resourceVersion", "managedFields"):
            if name in new["metadata"]:
                result["metadata"][name] = new["metadata"][name]
        return result

    def validate(self, document: Document) -> Iterable[Cause]:
        """Return the violations of the schema."""
        body = {name: value for name, value in document.items() if name != "metadata"}
        if self._accepts(body):
            return []
        return [Cause(error.field, error.reason, error.message) for error in self._schema.validate(body)]

    def validate_status(self, new: Document, old: Document) -> Iterable[Cause]:
        """Return the violations of the schema."""
        return self.validate(new)


@cached("custom_strategies", 16 << 20, lambda version, _: 20 * len(version))
def _strategy(version: bytes) -> CustomStrategy:
    return CustomStrategy(msgspec.json.decode(version))


def _columns(definitions: list[Document]) -> tuple[columns.Column, ...]:
    if not definitions:
        return columns.PLAIN
    return (columns.NAME, *(_column(definition) for definition in definitions))


def _column(definition: Document) -> columns.Column:
    path, type_ = definition["jsonPath"], definition.get("type", "string")

    def cell(document: Document, now: datetime) -> Any:
        values = jsonpath.find(document, path)
        if not values:
            return None if type_ != "date" else "<unknown>"
        value = values[0]
        match type_:
            case "date":
                return columns.since(str(value), now)
            case "integer":
                return int(value) if isinstance(value, int | float) else None
            case "number":
                return value if isinstance(value, int | float) else None
            case "boolean":
                return value if isinstance(value, bool) else None
        if len(values) > 1:
            return ",".join(map(str, values))
        if isinstance(value, bool):
            return str(value).lower()
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()

    return columns.Column(
        definition["name"],
        cell,
        type_,
        definition.get("priority", 0),
        definition.get("format", ""),
        definition.get("description", "")
        or f"Custom resource definition column (in JSONPath format): {path}",
    )
