"""The form of CustomResourceDefinitions."""

from typing import Any

import msgspec

from .form import Form


class _Names(Form):
    plural: str | None = None
    singular: str | None = None
    kind: str | None = None
    list_kind: str | None = None
    short_names: list[str] | None = None
    categories: list[str] | None = None


class _Column(Form):
    name: str
    type: str
    json_path: str
    priority: int | None = None
    format: str | None = None
    description: str | None = None


class _SelectableField(Form):
    json_path: str


class _VersionSchema(Form):
    open_apiv3_schema: dict[str, Any] | None = msgspec.field(default=None, name="openAPIV3Schema")


class _Version(Form):
    name: str | None = None
    served: bool | None = None
    storage: bool | None = None
    schema: _VersionSchema | None = None
    subresources: dict[str, dict[str, Any]] | None = None
    additional_printer_columns: list[_Column] | None = None
    selectable_fields: list[_SelectableField] | None = None


class _Conversion(Form):
    strategy: str | None = None


class _DefinitionSpec(Form):
    group: str | None = None
    scope: str | None = None
    names: _Names | None = None
    versions: list[_Version] | None = None
    conversion: _Conversion | None = None


class Definition(Form):
    """A CustomResourceDefinition."""

    spec: _DefinitionSpec | None = None
    status: dict[str, Any] | None = None
