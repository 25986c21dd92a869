"""The OpenAPI documents for clients: verbs, and the schemas of built-in kinds and custom resources.

The schemas of built-in kinds are those of kube-apiserver, from a file that
`tests/e2e/controlplane/openapi.py` makes. `kubectl explain` prints their descriptions, `kubectl apply` merges
lists by the keys in them.
"""

import gzip
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

from .catalog import Catalog, Served

Document = dict[str, Any]

FILE: Final = Path(__file__).with_name("openapi_schemas.json.gz")
METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PREFIX: Final = "#/components/schemas/"

_INFO = {"title": "koordpy embedded API server", "version": "v1.35.3"}


class _BuiltIn(msgspec.Struct):
    """The contents of the file: names of schemas by `GROUP/VERSION/KIND`, and the schemas."""

    kinds: dict[str, str]
    schemas: dict[str, Document]


@cache
def _built_in() -> _BuiltIn:
    return msgspec.json.decode(gzip.decompress(FILE.read_bytes()), type=_BuiltIn)


def _name(served: Served) -> str:
    known = None if served.custom else _built_in().kinds.get(f"{served.group}/{served.version}/{served.kind}")
    if known is not None:
        return known
    group = served.group or "core"
    return f"{'.'.join(reversed(group.split('.')))}.{served.version}.{served.kind}"


def _kind(served: Served) -> Document:
    return {"group": served.group, "version": served.version, "kind": served.kind}


def _schema(served: Served) -> Document:
    known = _built_in()
    schema = known.schemas.get(_name(served))
    if schema is not None:
        return schema
    found: Document = served.strategy.schema() or {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    if "properties" in found:
        # As kube-apiserver, whatever the definition has for these fields.
        types = known.schemas[known.kinds["/v1/Pod"]]["properties"]
        metadata = {
            "description": types["metadata"]["description"],
            "allOf": [{"$ref": f"{_PREFIX}{METADATA}"}],
        }
        common = {"apiVersion": types["apiVersion"], "kind": types["kind"], "metadata": metadata}
        found = {**found, "properties": {**found["properties"], **common}}
    return {**found, "x-kubernetes-group-version-kind": [_kind(served)]}


def references(schema: Any) -> Iterable[str]:
    """Yield the names of the schemas that a schema refers to."""
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            reference = part.get("$ref")
            if isinstance(reference, str):
                yield reference.removeprefix(_PREFIX)
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)


def _with_references(schemas: Document) -> Document:
    """Add the schemas that schemas refer to, directly or not."""
    known = _built_in().schemas
    found = dict(schemas)
    pending = list(schemas.values())
    while pending:
        for name in references(pending.pop()):
            if name not in found and name in known:
                found[name] = known[name]
                pending.append(known[name])
    return found


def v2(catalog: Catalog) -> Document:
    """The old document: definitions of all kinds."""
    definitions = _with_references({_name(served): _schema(served) for served in catalog})
    text = msgspec.json.encode(definitions).replace(_PREFIX.encode(), b"#/definitions/")
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": msgspec.Raw(text)}


def v2_protobuf() -> bytes:
    """The old document as protobuf, without definitions: kubectl reads it for kinds that v3 does not have."""

    def text(number: int, value: bytes) -> bytes:
        return bytes((number << 3 | 2, len(value))) + value

    info = b"".join(text(number, _INFO[name].encode()) for number, name in ((1, "title"), (2, "version")))
    return text(1, b"2.0") + text(2, info)


def v3_index(catalog: Catalog) -> Document:
    """Where the documents of each group and version are."""
    paths = {}
    for group, versions in catalog.groups().items():
        for version in versions:
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={catalog.changes:016X}"}
    return {"paths": paths}


def v3(resources: list[Served]) -> Document:
    """The document of one group and version."""
    paths: Document = {}
    schemas: Document = {}
    for served in resources:
        name = _name(served)
        schemas[name] = _schema(served)
        reference = {"content": {"application/json": {"schema": {"$ref": f"{_PREFIX}{name}"}}}}
        parameters = [
            {"name": field, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for field in ("dryRun", "fieldManager", "fieldValidation")
        ]

        def operation(action: str, served: Served = served, reference: Document = reference) -> Document:
            return {
                "parameters": parameters,  # noqa: B023
                "responses": {"200": {"description": "OK", **reference}},
                "x-kubernetes-action": action,
                "x-kubernetes-group-version-kind": _kind(served),
            }

        collection = served.path("{namespace}") if served.namespaced else served.path()
        paths[collection] = {"post": operation("post"), "get": operation("list")}
        if len(served.verbs) > 1:
            paths[f"{collection}/{{name}}"] = {
                "get": operation("get"),
                "put": operation("put"),
                "patch": operation("patch"),
                "delete": operation("delete"),
            }
    components = {"schemas": _with_references(schemas)}
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": components}
